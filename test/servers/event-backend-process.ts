/**
 * The process of `event-backend.ts`: it follows a user's events, and goes on after the last line of its file. It loads the SDK
 * alone, as the backend of a product does.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { Postroom } from '../../packages/sdk/src/index.ts';

/** The cursors that a file has, in their order. */
export const cursorsIn = (file: string): string[] =>
  readFileSync(file, 'utf8').split('\n').filter(Boolean);

async function follow(userId: string, file: string): Promise<void> {
  const user = new Postroom().user(userId);
  for await (const event of user.events({ after: cursorsIn(file).at(-1) ?? '0' })) {
    // Such a hint is of no event.
    if (event.type !== 'mailbox.changed') appendFileSync(file, `${event.cursor}\n`);
  }
}

if (import.meta.main) {
  const [, , userId = '', file = ''] = process.argv;
  await follow(userId, file);
}
