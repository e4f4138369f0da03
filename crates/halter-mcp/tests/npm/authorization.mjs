// A real authorization server (oidc-provider), and an MCP server that it
// protects. Its user agrees to everything at once. Prints the address of the
// MCP server; what it does is changed by POST /admin with a JSON object:
//
//   audience      whom access tokens are for, in place of the MCP server
//   registration  false: clients are not registered
//   forget        true: access tokens given so far count no more
//   revoke        true: everything granted so far counts no more

import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(`${process.argv[2]}/`));
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));

// Its hints are for people who deploy it.
console.info = () => {};
console.warn = () => {};

const state = { registration: true, audience: undefined };

const body = async (request) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString();
};

let provider;
let resource;

// The MCP server.
const mcp = createServer(async (request, response) => {
  const origin = `http://127.0.0.1:${mcp.address().port}`;
  const send = (status, value, headers = {}) => {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
    response.end(value === undefined ? '' : JSON.stringify(value));
  };
  if (request.url === '/admin') {
    const change = JSON.parse(await body(request));
    Object.assign(state, change);
    if (change.forget || change.revoke) stores.get('AccessToken')?.clear();
    if (change.revoke) {
      stores.get('RefreshToken')?.clear();
      stores.get('Grant')?.clear();
      stores.get('Session')?.clear();
    }
    return send(200, {});
  }
  if (request.url.startsWith('/.well-known/oauth-protected-resource')) {
    return send(200, {
      resource,
      authorization_servers: [provider.issuer],
      scopes_supported: ['tools'],
    });
  }
  if (request.url !== '/mcp') return send(404, {});
  const bearer = (request.headers.authorization ?? '').replace(/^Bearer /, '');
  const token = bearer && (await provider.AccessToken.find(bearer));
  if (!token || token.isExpired || [].concat(token.aud)[0] !== resource) {
    const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`;
    return send(401, { error: 'invalid_token' }, {
      'WWW-Authenticate': `Bearer error="invalid_token", resource_metadata="${metadata}"`,
    });
  }
  if (request.method !== 'POST') return send(405);
  const message = JSON.parse(await body(request));
  const results = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'protected', version: '1' },
    },
    'tools/list': { tools: [{ name: 'whoami', inputSchema: { type: 'object' } }] },
    'tools/call': { content: [{ type: 'text', text: `${token.accountId}: ${token.scope}` }] },
  };
  const result = results[message.method];
  if (message.id === undefined) return send(202);
  const answer = { jsonrpc: '2.0', id: message.id };
  if (result) return send(200, { ...answer, result });
  return send(200, { ...answer, error: { code: -32601, message: 'not known' } });
});

// oidc-provider keeps everything in memory, by model and id.
const stores = new Map();
class Memory {
  constructor(name) {
    this.name = name;
    if (!stores.has(name)) stores.set(name, new Map());
    this.all = stores.get(name);
  }
  async upsert(id, payload) { this.all.set(id, payload); }
  async find(id) { return this.all.get(id); }
  async findByUid(uid) { return [...this.all.values()].find((it) => it.uid === uid); }
  async findByUserCode() {}
  async consume(id) { this.all.get(id).consumed = Math.floor(Date.now() / 1000); }
  async destroy(id) { this.all.delete(id); }
  async revokeByGrantId(grantId) {
    for (const [id, it] of this.all) if (it.grantId === grantId) this.all.delete(id);
  }
}
// The authorization server.
const server = createServer(async (request, response) => {
  if (request.url.startsWith('/reg') && !state.registration) {
    response.writeHead(403, { 'Content-Type': 'application/json' });
    response.end('{"error":"access_denied","error_description":"ask your administrator"}');
    return;
  }
  if (request.url.startsWith('/interaction/')) {
    const { prompt, params, session } = await provider.interactionDetails(request, response);
    let result;
    if (prompt.name === 'login') {
      result = { login: { accountId: 'ada' } };
    } else {
      const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
      grant.addOIDCScope(params.scope ?? '');
      grant.addResourceScope(params.resource, params.scope ?? '');
      const grantId = await grant.save();
      result = { consent: { grantId } };
    }
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
    return;
  }
  provider.callback()(request, response);
});

await new Promise((done) => mcp.listen(0, '127.0.0.1', done));
await new Promise((done) => server.listen(0, '127.0.0.1', done));
resource = `http://127.0.0.1:${mcp.address().port}/mcp`;
provider = new Provider(`http://127.0.0.1:${server.address().port}`, {
  adapter: Memory,
  clients: [{
    client_id: 'known', client_secret: 'known-secret', redirect_uris: ['http://127.0.0.1/callback'],
    application_type: 'native', grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'], token_endpoint_auth_method: 'client_secret_basic',
  }],
  clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: 'tools', audience: state.audience ?? resource, accessTokenTTL: 3600,
        accessTokenFormat: 'opaque',
      }),
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: async () => true,
  pkce: { required: () => true },
  scopes: ['openid', 'offline_access', 'tools'],
  cookies: { keys: ['fixture'] },
});
console.log(resource);
