/** Signs of life of commands that work for long (RFC 9585), so that programs and what is between do not give up. */
import type { Progress, Session } from './session.ts';

/** Milliseconds between two of them. */
const EVERY = 10_000;

/**
 * Waits for work of a command, of whose answer nothing or whole lines were passed on.
 *
 * @param progress how far it is; undefined where nobody knows
 * @throws what the work throws
 */
export async function* showProgress<T>(
  session: Session,
  work: Promise<T>,
  progress: () => Progress | undefined = () => undefined,
): AsyncGenerator<string, T> {
  if (session.services.disabled?.has('INPROGRESS')) return work;
  // Where the client leaves meanwhile nobody waits for it.
  work.catch(() => {});
  const ended = work.then((value) => ({ value }));
  for (;;) {
    const { promise: passed, resolve: pass } = Promise.withResolvers<undefined>();
    const timer = setTimeout(pass, EVERY, undefined);
    const result = await Promise.race([ended, passed]).finally(() => clearTimeout(timer));
    if (result) return result.value;
    const { done, of } = progress() ?? { done: 'NIL', of: 'NIL' };
    yield `* OK [INPROGRESS ("${session.tag}" ${done} ${of})] Still working\r\n`;
    await session.channel.flush();
  }
}
