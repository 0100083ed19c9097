/**
 * Worker, reference: bare `ws` connections, each sent one message when an HTTP request comes.
 * Answers with its port, then with its memory.
 */
import { createServer } from 'node:http';
import { type WebSocket, WebSocketServer } from 'ws';
import { type MemoryUse, measureMemory } from './memory.ts';
import { portOf } from './ports.ts';
import { answerTasks } from './worker.ts';

const MESSAGE = JSON.stringify({
  type: 'mailbox_changed',
  mailbox: 'INBOX',
  uidvalidity: '1795244400',
  token: '1000000',
  eventType: 'MailboxesChanged',
});

const sockets: WebSocket[] = [];
const server = createServer((_request, response) => {
  response.end('{}');
  for (const socket of sockets) socket.send(MESSAGE);
});
const channel = new WebSocketServer({ server, perMessageDeflate: false, clientTracking: false });
channel.on('connection', (socket) => {
  sockets.push(socket);
});

answerTasks(
  async (ask: 'port' | 'memory'): Promise<number | MemoryUse> =>
    ask === 'port' ? portOf(server) : measureMemory(),
);
