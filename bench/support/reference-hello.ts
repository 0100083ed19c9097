/** Worker, reference H: a bare Fastify that says hello. Answers with its port. */
import { fastify } from 'fastify';
import { portOf } from './ports.ts';
import { answerTasks } from './worker.ts';

const app = fastify();
app.get('/', async () => ({ hello: 'world' }));
answerTasks(async () => {
  await app.ready();
  return portOf(app.server);
});
