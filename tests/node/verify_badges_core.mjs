// Reads badges with the verifier of the Digital Credentials Consortium and says of each whether it holds.
//
//     node verify_badges_core.mjs CASES.json
//
// The library fetches what it needs by itself: status lists, the documents of `did:web` issuers, lists of issuers that somebody
// has registered, and the JSON schema a credential names. Here it is answered with the files of the case, and with nothing for
// all else: no socket is opened. The library itself is as it was published. It remembers the documents of issuers, so cases with
// another document are looked at by another thread, which has a library of its own.
import {once} from 'node:events';
import {Worker, isMainThread, parentPort} from 'node:worker_threads';
import {judge, load, read, unbake} from './cases.mjs';

// Results go to the standard output; what the library has to say beside does not.
console.log = console.error;

const served = new Map();
globalThis.fetch = async asked => {
  const url = typeof asked === 'string' ? asked : asked.url ?? String(asked);
  const document = served.get(url);
  return document ?
    new Response(JSON.stringify(document), {headers: {'content-type': 'application/json'}}) :
    new Response('{}', {status: 404, headers: {'content-type': 'application/json'}});
};

// Where a `did:web` has its document.
function address(did) {
  const [host, ...path] = did.slice('did:web:'.length).split(':').map(decodeURIComponent);
  return `https://${host}/${path.length ? path.join('/') : '.well-known'}/did.json`;
}

const verifier = isMainThread ? null : await load('@digitalcredentials/verifier-core');

async function verify({file, status, did}) {
  served.clear();
  if(status) {
    const list = read(status);
    served.set(list.id, list);
  }
  if(did) {
    const document = read(did);
    served.set(address(document.id), document);
  }
  const result = await verifier.verifyCredential({credential: unbake(file), knownDIDRegistries: []});
  const said = [...result.errors ?? []];
  const log = new Map((result.log ?? []).map(step => [step.id, step]));
  // That nobody has registered the issuer (`registered_issuer`) says nothing about the badge.
  for(const id of ['valid_signature', 'expiration', 'revocation_status']) {
    const step = log.get(id);
    // Without a status list nobody can say whether it is revoked, and a case without one does not ask.
    const unasked = id === 'revocation_status' && !status && step?.error?.name === 'status_list_not_found';
    if(step?.valid !== true && !unasked) {
      said.push({name: id, message: step?.error?.message ?? 'not valid'});
    }
  }
  if(said.length) {
    throw new Error(said.map(it => `${it.name}: ${it.message}`).join('; '));
  }
}

if(isMainThread) {
  const threads = new Map();
  await judge(async wanted => {
    if(!threads.has(wanted.did)) {
      threads.set(wanted.did, new Worker(new URL(import.meta.url)));
    }
    const thread = threads.get(wanted.did);
    thread.postMessage(wanted);
    const [refusal] = await once(thread, 'message');
    if(refusal !== null) {
      throw new Error(refusal);
    }
  });
  await Promise.all([...threads.values()].map(thread => thread.terminate()));
} else {
  parentPort.on('message', wanted => verify(wanted).then(
    () => parentPort.postMessage(null), refusal => parentPort.postMessage(String(refusal.message))));
}
