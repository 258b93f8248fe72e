// An OpenID provider for tests, which lets everybody in: package oidc-provider, a certified implementation.
//
//     node oidc_provider.mjs HOST REDIRECT_URI
//
// Prints its issuer in one line and serves until its standard input ends. HOST is the name in the issuer. The header
// `x-account` of a request chooses who signs in; `nobody` cancels.
import http from 'node:http';
import {load} from './cases.mjs';

const {default: Provider} = await load('oidc-provider');
const [host, redirectUri] = process.argv.slice(2);

const accounts = {
  dana: {groups: ['evals', 'releasers'], org: 'Acme Inc'},
  guest: {groups: ['visitors'], org: 'Acme Inc'},
  stranger: {groups: ['evals'], org: 'Initech'},
};

function client(id, more) {
  return {client_id: id, redirect_uris: [redirectUri], grant_types: ['authorization_code'], response_types: ['code'], ...more};
}

const server = http.createServer();
await new Promise(done => server.listen(0, '127.0.0.1', done));
const issuer = `http://${host}:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    client('touchstone', {client_secret: 'a secret of 30 characters long'}),
    client('public', {token_endpoint_auth_method: 'none'}),
  ],
  claims: {openid: ['sub'], profile: ['name'], groups: ['groups', 'org']},
  cookies: {keys: ['for tests']},
  features: {devInteractions: {enabled: false}},
  findAccount: (_, id) => accounts[id] && {accountId: id, claims: () => ({sub: id, name: id, ...accounts[id]})},
  interactions: {url: (_, interaction) => `/let-in/${interaction.uid}`},
  // Consent to what is asked for.
  async loadExistingGrant(ctx) {
    const {client: {clientId}, session: {accountId}, params: {scope}} = ctx.oidc;
    const grant = new provider.Grant({clientId, accountId});
    grant.addOIDCScope(scope);
    await grant.save();
    return grant;
  },
  pkce: {required: () => true},
  ttl: {AccessToken: 60, AuthorizationCode: 60, Grant: 60, IdToken: 60, Interaction: 60, Session: 60},
});

const answer = provider.callback();
server.on('request', (request, response) => {
  if(!request.url.startsWith('/let-in/')) {
    return answer(request, response);
  }
  const account = request.headers['x-account'] ?? 'dana';
  const result = account === 'nobody' ? {error: 'access_denied'} : {login: {accountId: account}};
  provider.interactionFinished(request, response, result).catch(fault => {
    response.statusCode = 500;
    response.end(String(fault));
  });
});

console.log(issuer);
process.stdin.resume().on('end', () => process.exit(0));
