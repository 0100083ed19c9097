/** Worker: an HTTP receiver that reads what it gets and says 204. Answers with its port. */
import { createServer } from 'node:http';
import { portOf } from './support/ports.ts';
import { answerTasks } from './support/worker.ts';

answerTasks(() =>
  portOf(
    createServer((request, response) => {
      request.resume();
      request.on('end', () => response.writeHead(204).end());
    }),
  ),
);
