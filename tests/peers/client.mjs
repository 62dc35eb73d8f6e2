// The official TypeScript client going through one fixed scenario; prints what it saw, one JSON line a step.
//   node client.mjs SDK NAMES COMMAND [ARGUMENT…]
// SDK: `v1` (the 2025-11-25 handshake, SDK 1), `legacy` (the same, SDK 2), `modern` (2026-07-28, SDK 2) or `auto`
// (SDK 2, which asks with `server/discover` and falls back).
// NAMES: `peer` for server.mjs and server.py, `everything` for server-everything.
// What is random or a matter of timing never reaches a line: two runs against one server print the same.
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [sdk, names, command, ...args] = process.argv.slice(2);
const require = createRequire(join(process.env.CALLGATE_PEERS, 'package.json'));

const STEPS = {
  peer: {
    echo: ['echo', (message) => ({ message })],
    fail: ['fail', { message: 'raised on purpose' }],
    count: ['count', { steps: 3 }],
    wait: ['wait', {}],
    confirm: ['confirm', { what: 'drop it' }],
    summarise: ['summarise', { what: 'the log' }],
    denied: ['drop', { table: 'users' }],
    resource: 'note://one',
    template: 'page://7',
    prompt: ['greet', { name: 'Zoë' }],
  },
  everything: {
    echo: ['echo', (message) => ({ message })],
    fail: ['get-sum', { a: 'one', b: 2 }],
    count: ['trigger-long-running-operation', { duration: 0.3, steps: 3 }],
    wait: ['trigger-long-running-operation', { duration: 4, steps: 40 }],
    confirm: ['trigger-elicitation-request', {}],
    summarise: ['trigger-sampling-request', { prompt: 'the log', maxTokens: 10 }],
    denied: ['get-tiny-image', {}],
    resource: 'demo://resource/static/document/features.md',
    template: null,
    prompt: ['args-prompt', { city: 'Zürich' }],
  },
}[names];
const UNICODE = 'Ünïcödé “quotes” \u2028 \u0000 \u007f 🦀 e\u0301 مرحبا 回声 \\ "';
const LARGE_CHARACTERS = 512 * 1024;

const events = [];
const client = await connect();
const print = (step, seen) => process.stdout.write(`${JSON.stringify({ step, ...seen, events: events.splice(0) })}\n`);
const step = async (name, work) => print(name, await work().then((result) => ({ result }), (error) => ({ error: told(error) })));
const call = ([name, argumentsOf], options) => client.callTool({ name, arguments: argumentsOf }, ...(sdk === 'v1' ? [undefined] : []), options);
const echo = (message) => call([STEPS.echo[0], STEPS.echo[1](message)]);

print('connect', { result: { server: client.getServerVersion(), capabilities: client.getServerCapabilities() } });
await step('tools/list', () => pages('tools', (cursor) => client.listTools(cursor)));
await step('echo unicode', () => echo(UNICODE));
await step('echo large', async () => shortened(await echo('x🦀'.repeat(LARGE_CHARACTERS / 4))));
await step('raise', () => call(STEPS.fail));
await step('unknown tool', () => call(['no-such-tool', {}]));
// Whether a progress message is still taken depends on how close behind it the answer comes; that one is taken at all shows
// in the next step, and what came over the wire is compared there.
await step('progress', () => call(STEPS.count, { onprogress: () => {} }));
await step('cancel', () => {
  const abort = new AbortController();
  const onprogress = () => abort.abort('on purpose');
  return call(STEPS.wait, { signal: abort.signal, onprogress });
});
if (client.getProtocolEra?.() !== 'modern') await step('ping', () => client.ping());
await step('resources/list', () => pages('resources', (cursor) => client.listResources(cursor)));
await step('resources/templates/list', () => pages('resourceTemplates', (cursor) => client.listResourceTemplates(cursor)));
await step('resources/read', () => client.readResource({ uri: STEPS.resource }));
if (STEPS.template) await step('resources/read template', () => client.readResource({ uri: STEPS.template }));
await step('prompts/list', () => pages('prompts', (cursor) => client.listPrompts(cursor)));
await step('prompts/get', () => client.getPrompt({ name: STEPS.prompt[0], arguments: STEPS.prompt[1] }));
await step('elicitation', () => call(STEPS.confirm));
await step('sampling', () => call(STEPS.summarise));
await step('denied by a rule', () => call(STEPS.denied));
await step('echo after all', () => echo('still here'));
await client.close();

async function connect() {
  const info = { name: 'callgate-suite', version: '1.0.0' };
  const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
  const elicited = async ({ params }) => {
    events.push(['elicitation', params]);
    return { action: 'accept', content: { sure: true, name: 'Zoë', check: true } };
  };
  const sampled = async ({ params }) => {
    events.push(['sampling', params]);
    return { role: 'assistant', model: 'none', content: { type: 'text', text: 'a summary' } };
  };
  const rooted = async () => ({ roots: [{ uri: 'file:///work', name: 'work' }] });
  const env = Object.fromEntries(Object.entries(process.env));
  if (sdk === 'v1') {
    const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
    const schemas = require('@modelcontextprotocol/sdk/types.js');
    const client = new Client(info, { capabilities });
    client.setRequestHandler(schemas.ElicitRequestSchema, elicited);
    client.setRequestHandler(schemas.CreateMessageRequestSchema, sampled);
    client.setRequestHandler(schemas.ListRootsRequestSchema, rooted);
    await client.connect(new StdioClientTransport({ command, args, env, stderr: 'inherit' }));
    return client;
  }
  const { Client } = require('@modelcontextprotocol/client');
  const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
  const mode = sdk === 'modern' ? { pin: '2026-07-28' } : sdk;
  const client = new Client(info, { capabilities, versionNegotiation: { mode } });
  client.setRequestHandler('elicitation/create', elicited);
  client.setRequestHandler('sampling/createMessage', sampled);
  client.setRequestHandler('roots/list', rooted);
  await client.connect(new StdioClientTransport({ command, args, env, stderr: 'inherit' }));
  return client;
}

async function pages(key, list) {
  const items = [];
  let cursor;
  do {
    const page = await list(cursor === undefined ? undefined : { cursor });
    items.push(...page[key]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return items;
}

function shortened(value) {
  if (typeof value === 'string' && value.length > 1000) {
    return { length: value.length, sha256: createHash('sha256').update(value).digest('hex') };
  }
  if (Array.isArray(value)) return value.map(shortened);
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, shortened(part)]));
  return value;
}

function told(error) {
  return { name: error.name, code: error.code, message: error.message, data: error.data };
}
