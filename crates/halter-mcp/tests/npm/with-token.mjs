// Stands before a server that wants a token, for clients that have none.
//
//   node with-token.mjs URL TOKEN_FILE      prints its own address

import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';

const [url, tokenFile] = process.argv.slice(2);
const upstream = new URL(url);
const token = readFileSync(tokenFile, 'utf8').trim();

const server = createServer((incoming, outgoing) => {
  const own = `127.0.0.1:${server.address().port}`;
  const headers = { ...incoming.headers, authorization: `Bearer ${token}` };
  // Whoever names another host is still seen to do so.
  for (const [name, prefix] of [['host', ''], ['origin', 'http://']]) {
    if (headers[name] === prefix + own) headers[name] = prefix + upstream.host;
  }
  const { hostname, port } = upstream;
  const { method, url: path } = incoming;
  const forwarded = request({ hostname, port, method, path, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing);
  });
  forwarded.on('error', () => outgoing.destroy());
  outgoing.on('close', () => forwarded.destroy());
  incoming.pipe(forwarded);
});
server.listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}${upstream.pathname}`);
});
