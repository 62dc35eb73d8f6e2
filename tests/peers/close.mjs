// The official TypeScript client opens a session and closes it, no more; prints the server's name and the signals that the
// client sent to what it had started, for want of patience.
//   node close.mjs COMMAND [ARGUMENT…]
import { ChildProcess } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [command, ...args] = process.argv.slice(2);
const require = createRequire(join(process.env.CALLGATE_PEERS, 'package.json'));
const { Client } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const signals = [];
const { kill } = ChildProcess.prototype;
ChildProcess.prototype.kill = function (signal) {
  signals.push(signal ?? 'SIGTERM');
  return kill.call(this, signal);
};

const client = new Client({ name: 'callgate-suite', version: '1.0.0' });
await client.connect(new StdioClientTransport({ command, args, env: { ...process.env }, stderr: 'inherit' }));
const server = client.getServerVersion().name;
await client.close();
process.stdout.write(`${JSON.stringify({ server, signals })}\n`);
