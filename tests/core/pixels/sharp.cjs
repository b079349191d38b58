// Runs cases through sharp: reads a JSON list from the file named first, writes one of results to stdout.
// A case: {input, output, width, height, fit, animated}. Pixels go to `output` as raw RGBA.
'use strict'
const { readFileSync, writeFileSync } = require('node:fs')
const sharp = require('sharp')

const CLEAR = { r: 0, g: 0, b: 0, alpha: 0 }

async function run ({ input, output, width, height, fit, animated }) {
  const options = { fit, background: CLEAR }
  if (width !== null) options.width = width
  if (height !== null) options.height = height
  const { data, info } = await sharp(input, { animated })
    .autoOrient().resize(options).toColourspace('srgb').ensureAlpha().raw().toBuffer({ resolveWithObject: true })
  writeFileSync(output, data)
  return { width: info.width, height: info.pageHeight ?? info.height, frames: info.pages ?? 1 }
}

async function main () {
  const results = []
  for (const each of JSON.parse(readFileSync(process.argv[2], 'utf8'))) results.push(await run(each))
  process.stdout.write(JSON.stringify(results))
}

main().catch((error) => { console.error(error); process.exit(1) })
