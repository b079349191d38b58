#!/usr/bin/env bash
# yauzl stops at an entry whose name is a letter and a colon, such as a:b.jpg, and gives none of the later ones.
# 
# yauzl 3.4.0. It takes the name for one of a Windows drive, and its error ends the whole archive; 12:30.jpg passes. An
# archive of photographs with such a title is therefore unreadable for programs that use yauzl.
# Seen: a:b.jpg 'absolute path' after one of three entries; 12:30.jpg all three.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund yauzl@3.4.0 fflate@0.8.3
cat > try.mjs <<'JAVASCRIPT'
import assert from 'node:assert';
import {strToU8, zipSync} from 'fflate';
import yauzl from 'yauzl';

const read = (name) => new Promise((resolve) => {
  const files = {'first.jpg': strToU8('1'), [name]: strToU8('2'), 'last.jpg': strToU8('3')};
  yauzl.fromBuffer(Buffer.from(zipSync(files, {level: 0})), {lazyEntries: true}, (_, archive) => {
    const names = [];
    archive.on('entry', (entry) => { names.push(entry.fileName); archive.readEntry(); });
    archive.on('end', () => resolve([names.length, 'end']));
    archive.on('error', (error) => resolve([names.length, error.message]));
    archive.readEntry();
  });
});
const seen = [await read('a:b.jpg'), await read('12:30.jpg')];
console.log(seen);
assert.deepStrictEqual(seen, [[1, 'absolute path: a:b.jpg'], [3, 'end']]);
JAVASCRIPT
node try.mjs
