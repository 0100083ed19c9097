/** Worker: posts batches of mail server events, made and signed before the clock starts. */
import { eventsRequest, writeBatch } from './event-batches.ts';
import { type HttpTarget, type Played, playRequests } from './http-client.ts';
import { answerTasks } from './worker.ts';

export interface EventsLoad extends HttpTarget {
  readonly users: readonly string[];
  readonly batches: number;
  readonly lines: number;
}

answerTasks(({ users, batches, lines, ...target }: EventsLoad): Promise<Played> => {
  const requests = Array.from({ length: batches }, (_, round) =>
    Buffer.from(eventsRequest(writeBatch(users, lines, round))),
  );
  return playRequests(target, () => requests.pop());
});
