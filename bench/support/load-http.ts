/** Worker: sends the same few HTTP requests over and over, for a time or so many times. */
import { type HttpTarget, type Played, playRequests } from './http-client.ts';
import { answerTasks } from './worker.ts';

export interface HttpLoad extends HttpTarget {
  /** Whole requests, sent in turn. */
  readonly requests: readonly string[];
  /** When to stop: after this time, or this many requests. */
  readonly seconds?: number;
  readonly count?: number;
}

answerTasks(({ requests, seconds, count, ...target }: HttpLoad): Promise<Played> => {
  const all = requests.map((request) => Buffer.from(request));
  const end = seconds === undefined ? Number.POSITIVE_INFINITY : performance.now() + seconds * 1000;
  const most = count ?? Number.POSITIVE_INFINITY;
  let sent = 0;
  return playRequests(target, () =>
    sent < most && performance.now() < end ? all[sent++ % all.length] : undefined,
  );
});
