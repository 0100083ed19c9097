/** Worker, reference: a file streamed over HTTP with nothing around it. Answers with its port. */
import { createReadStream } from 'node:fs';
import { createServer } from 'node:http';
import { pipeline } from 'node:stream';
import { portOf } from './ports.ts';
import { answerTasks } from './worker.ts';

export interface FileToServe {
  readonly path: string;
  readonly size: number;
}

answerTasks(async ({ path, size }: FileToServe) => {
  const server = createServer((_request, response) => {
    response.writeHead(200, {
      'content-type': 'application/octet-stream',
      'content-length': size,
    });
    pipeline(createReadStream(path), response, () => {});
  });
  return portOf(server);
});
