// Reads frames as servers on Node do, and prints one JSON line for each that is, or holds, a `tools/call`: the SHA-256 of
// the line with its line feed, and the tools called.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const bytes = readFileSync(0);
for (let start = 0, end; (end = bytes.indexOf(0x0a, start)) !== -1; start = end + 1) {
  const tools = called(bytes.subarray(start, end).toString('utf8').replace(/\r$/, ''));
  if (tools.length === 0) continue;
  const sha256 = createHash('sha256').update(bytes.subarray(start, end + 1)).digest('hex');
  process.stdout.write(`${JSON.stringify({ sha256, tools })}\n`);
}

// Leniently: without a byte order mark, and whatever else stands in the message.
function called(line) {
  let message;
  try {
    message = JSON.parse(line.replace(/^\ufeff/, ''));
  } catch {
    return [];
  }
  const messages = Array.isArray(message) ? message : [message];
  return messages.filter((one) => one?.method === 'tools/call').map((one) => one.params?.name ?? null);
}
