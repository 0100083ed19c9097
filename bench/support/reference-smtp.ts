/**
 * Worker, reference S: the bare `smtp-server` that writes each message to a file of its own and
 * fsyncs it before 250. Answers with its port.
 */
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { SMTPServer } from 'smtp-server';
import { answerTasks } from './worker.ts';

export interface Spool {
  readonly folder: string;
}

answerTasks(async ({ folder }: Spool) => {
  let messages = 0;
  const server = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    logger: false,
    onData(stream, _session, done) {
      const path = join(folder, String(messages++));
      const write = async () => {
        const file = await open(path, 'wx');
        try {
          for await (const chunk of stream) await file.write(chunk as Buffer);
          await file.sync();
        } finally {
          await file.close();
        }
      };
      write().then(() => done(), done);
    },
  });
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const address = server.server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP server');
  return address.port;
});
