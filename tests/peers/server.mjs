// A server on the official TypeScript SDK, for both protocol eras, with one tool for each thing a relay could break.
// The same tools as server.py; the scenario that uses them is in client.mjs and client.py.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.CALLGATE_PEERS, 'package.json'));
const { McpServer, ResourceTemplate, fromJsonSchema, inputRequired } = require('@modelcontextprotocol/server');
const { serveStdio } = require('@modelcontextprotocol/server/stdio');

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const schema = (properties) =>
  fromJsonSchema({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false });

serveStdio(() => {
  const server = new McpServer({ name: 'typescript-peer', version: '1.0.0' });

  server.registerTool(
    'echo',
    {
      title: 'Echo – écho – 回声',
      description: 'Says what it was told.',
      inputSchema: schema({ message: { type: 'string', description: 'Any text: “ünïcödé”, \u2028 and 🦀 too.' } }),
      annotations: { readOnlyHint: true },
    },
    async ({ message }) => text(message),
  );

  server.registerTool('fail', { description: 'Raises.', inputSchema: schema({ message: { type: 'string' } }) }, async ({ message }) => {
    throw new Error(message);
  });

  server.registerTool(
    'count',
    { description: 'Counts, with progress.', inputSchema: schema({ steps: { type: 'integer' } }) },
    async ({ steps }, context) => {
      for (let step = 1; step <= steps; step += 1) await progress(context, step, steps);
      return text(`counted to ${steps}`);
    },
  );

  server.registerTool('wait', { description: 'Tells that it began, then waits to be cancelled.', inputSchema: schema({}) }, async (_, context) => {
    await progress(context, 1, 2);
    await new Promise((resolve) => context.mcpReq.signal.addEventListener('abort', resolve, { once: true }));
    return text('cancelled');
  });

  server.registerTool('confirm', { description: 'Asks the person.', inputSchema: schema({ what: { type: 'string' } }) }, async ({ what }, context) => {
    const answer = context.mcpReq.inputResponses?.confirm;
    if (answer) return text(JSON.stringify(answer));
    const requestedSchema = { type: 'object', properties: { sure: { type: 'boolean', title: 'Sure?' } }, required: ['sure'] };
    return inputRequired({ inputRequests: { confirm: inputRequired.elicit({ message: `really ${what}?`, requestedSchema }) } });
  });

  server.registerTool('summarise', { description: 'Asks the model.', inputSchema: schema({ what: { type: 'string' } }) }, async ({ what }, context) => {
    const answer = context.mcpReq.inputResponses?.summary;
    if (answer) return text(JSON.stringify(answer));
    const messages = [{ role: 'user', content: { type: 'text', text: `summarise ${what}` } }];
    return inputRequired({ inputRequests: { summary: inputRequired.createMessage({ messages, maxTokens: 10 }) } });
  });

  server.registerTool('drop', { description: 'What a rule denies.', inputSchema: schema({ table: { type: 'string' } }) }, async ({ table }) =>
    text(`dropped ${table}`),
  );

  server.registerResource('note', 'note://one', { mimeType: 'text/plain', description: 'A note.' }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'a note – “quoted”' }],
  }));
  server.registerResource('page', new ResourceTemplate('page://{number}', { list: undefined }), {}, async (uri, { number }) => ({
    contents: [{ uri: uri.href, text: `page ${number}` }],
  }));
  server.registerPrompt('greet', { description: 'Greets.', argsSchema: schema({ name: { type: 'string' } }) }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }],
  }));
  return server;
});

async function progress(context, done, total) {
  const progressToken = context.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: done, total } });
}
