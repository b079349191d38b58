// Processes requests with sharp: reads a JSON list from the file given as argument, writes a list of results to stdout.
// A request is {input, output, width, height, fit, animated}. Pixels are written to `output` as raw RGBA.
'use strict'
const { readFileSync, writeFileSync } = require('node:fs')
const sharp = require('sharp')

const TRANSPARENT = { r: 0, g: 0, b: 0, alpha: 0 }

async function run ({ input, output, width, height, fit, animated }) {
  const options = { fit, background: TRANSPARENT }
  if (width !== null) options.width = width
  if (height !== null) options.height = height
  const { data, info } = await sharp(input, { animated })
    .autoOrient().resize(options).toColourspace('srgb').ensureAlpha().raw().toBuffer({ resolveWithObject: true })
  writeFileSync(output, data)
  return { width: info.width, height: info.pageHeight ?? info.height, frames: info.pages ?? 1 }
}

async function main () {
  const results = []
  for (const request of JSON.parse(readFileSync(process.argv[2], 'utf8'))) results.push(await run(request))
  process.stdout.write(JSON.stringify(results))
}

main().catch((error) => { console.error(error); process.exit(1) })
