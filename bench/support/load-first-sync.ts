/** Worker: one large sync, while a second connection asks all the time whether the service lives. */
import { Agent, request } from 'node:http';
import { answerTasks } from './worker.ts';

export interface FirstSync {
  readonly port: number;
  readonly bearer: string;
}

export interface FirstSynced {
  /** Octets of the JSON. */
  readonly bytes: number;
  /** Milliseconds from the request to the last byte. */
  readonly ms: number;
  /** Milliseconds of the slowest answer that the second connection got meanwhile. */
  readonly longestWait: number;
}

const agent = new Agent({ keepAlive: true });

/** Sends one request; answers the length of the body. */
function send(port: number, method: string, path: string, bearer = '', body = ''): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const headers = {
    ...(bearer !== '' && { authorization: `Bearer ${bearer}` }),
    ...(body !== '' && { 'content-type': 'application/json', 'content-length': body.length }),
  };
  const sent = request({ host: '127.0.0.1', port, method, path, headers, agent }, (response) => {
    let length = 0;
    response.on('data', (chunk: Buffer) => {
      length += chunk.length;
    });
    response.on('end', () => {
      if (response.statusCode === 200) resolve(length);
      else reject(new Error(`${path} answers ${response.statusCode}`));
    });
  });
  sent.on('error', reject).end(body);
  return promise;
}

answerTasks(async ({ port, bearer }: FirstSync): Promise<FirstSynced> => {
  await send(port, 'GET', '/healthz');
  let going = true;
  let longestWait = 0;
  const asking = (async () => {
    while (going) {
      const asked = performance.now();
      await send(port, 'GET', '/healthz');
      longestWait = Math.max(longestWait, performance.now() - asked);
    }
  })();
  const from = performance.now();
  const bytes = await send(port, 'POST', '/mail/sync', bearer, '{"mailbox":"INBOX"}');
  const ms = performance.now() - from;
  going = false;
  await asking;
  return { bytes, ms, longestWait };
});
