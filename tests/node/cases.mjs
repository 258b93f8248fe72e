// What every reader of badges here begins and ends with: the cases that are wanted, the credential inside of a picture, and the
// packages of package.json, which are looked for where TOUCHSTONE_TEST_NODE_MODULES says.
//
// What goes in and comes out is as in tests/python/verify_badges.py.
import fs from 'node:fs';
import path from 'node:path';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

export const require = createRequire(path.join(process.env.TOUCHSTONE_TEST_NODE_MODULES, 'here.js'));
export const read = file => JSON.parse(fs.readFileSync(file));

// A package by its own word for where its modules are, for those that cannot be required.
export const load = name => import(pathToFileURL(require.resolve(name)).href);

const KEYWORD = Buffer.from('openbadgecredential\0\0\0\0\0', 'latin1');

// There is no library for this that is kept up.
export function unbake(file) {
  const octets = fs.readFileSync(file);
  if(file.endsWith('.png')) {
    for(let at = 8; at < octets.length;) {
      const length = octets.readUInt32BE(at);
      const data = octets.subarray(at + 8, at + 8 + length);
      if(octets.toString('latin1', at + 4, at + 8) === 'iTXt' && data.subarray(0, KEYWORD.length).equals(KEYWORD)) {
        return JSON.parse(data.subarray(KEYWORD.length));
      }
      at += length + 12;
    }
    throw new Error('no credential in the picture');
  }
  if(file.endsWith('.svg')) {
    const [, held] = /<openbadges:credential[^>]*>(.*?)<\/openbadges:credential>/s.exec(octets.toString());
    return JSON.parse(held.replace(/<!\[CDATA\[(.*?)\]\]>/gs, '$1'));
  }
  return JSON.parse(octets);
}

// Has each case looked at; `verify` throws what speaks against it.
export async function judge(verify) {
  const results = [];
  for(const wanted of read(process.argv[2])) {
    try {
      await verify(wanted);
      results.push({file: wanted.file, valid: true, said: ''});
    } catch(refusal) {
      results.push({file: wanted.file, valid: false, said: String(refusal.message)});
    }
  }
  process.stdout.write(JSON.stringify(results) + '\n');
}
