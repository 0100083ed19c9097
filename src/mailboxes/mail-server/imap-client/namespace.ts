/** How a server writes the names of an account's own mailboxes. */
import type { Connection } from './connection.ts';
import { listOf, quoted, textOf } from './wire.ts';

/** An account's own namespace: on Courier `INBOX.` and `.`, on most others nothing and `/`. */
export interface Namespace {
  /** The start of every name except INBOX. */
  readonly prefix: string;
  /** Separates the name of a mailbox from that of one below it. */
  readonly separator: string;
}

/** For servers whose mailboxes have no levels. */
const FLAT: Namespace = { prefix: '', separator: '/' };

export async function readNamespace(connection: Connection): Promise<Namespace> {
  let found = FLAT;
  if (connection.has('NAMESPACE')) {
    // RFC 2342 section 5: `(("INBOX." ".")) NIL NIL`, the account's own first.
    await connection.command('NAMESPACE', [], {
      NAMESPACE: ({ attributes = [] }) => {
        const [prefix, separator] = listOf(listOf(attributes[0])[0]);
        found = { prefix: textOf(prefix) ?? '', separator: textOf(separator) ?? '/' };
      },
    });
    return found;
  }
  // RFC 3501 section 6.3.8: an empty name asks only for the separator.
  await connection.command('LIST', [quoted(''), quoted('')], {
    LIST: ({ attributes = [] }) => {
      found = { prefix: '', separator: textOf(attributes[1]) ?? '/' };
    },
  });
  return found;
}

/**
 * The name under which a server creates a mailbox.
 *
 * @param name its levels separated by `/`, or as the server writes it
 */
export function toServerName(name: string, { prefix, separator }: Namespace): string {
  const own = name.replaceAll('/', separator);
  return own === 'INBOX' || own.startsWith(prefix) ? own : prefix + own;
}
