/** An IMAP mail store on a test's server, with its log. */

import {
  ImapMailstore,
  type ImapOptions,
  type ImapServer,
} from '../../../src/mailboxes/mail-server/imap-client/imap.ts';
import type { MailUser } from '../../../src/mailboxes/mailstore/mailstore.ts';
import type { Database, Engine } from '../../../src/platform/database/database.ts';
import { atEnd } from '../at-end.ts';
import { openTestMailstore, type TestMailstore } from '../mail.ts';
import { type FakeServer, startFakeServer } from './fake-server.ts';

export interface LoggedFailure {
  readonly failure?: string;
  readonly text: string;
  readonly line: string;
}

export interface OpenedStore {
  readonly store: ImapMailstore;
  readonly database: Database;
  /** An account that is in the database, where the shadow is kept. */
  readonly user: MailUser;
  readonly logged: LoggedFailure[];
}

/** For tests that do not wait for it: longer than any of them may take. */
const TIMEOUT_MS = 3_600_000;
/** For tests of a server that does not answer, which wait for the timeout. */
export const IMPATIENT = { timeoutMs: 400 };

const databases = new Map<Engine, Promise<TestMailstore>>();

/** One database for all stores of a process, which may run several test files. */
function databaseOf(engine: Engine): Promise<TestMailstore> {
  const opened = databases.get(engine) ?? openTestMailstore(engine);
  databases.set(engine, opened);
  return opened;
}

export async function openImapStore(
  port: number,
  server: Partial<ImapServer> = {},
  options: Partial<ImapOptions> = {},
  engine: Engine = 'sqlite',
): Promise<OpenedStore> {
  const { database, bodies, makeUser } = await databaseOf(engine);
  const user = await makeUser();
  const logged: LoggedFailure[] = [];
  const store = new ImapMailstore({
    server: {
      host: '127.0.0.1',
      port,
      tls: 'off',
      verifyCertificate: true,
      master: { user: 'master', password: 'secret-of-the-master' },
      auth: 'master',
      separator: '*',
      ...server,
    },
    database,
    bodies,
    log: {
      warn: (what: object & { failure?: string }, text) =>
        logged.push({
          ...(what.failure !== undefined && { failure: what.failure }),
          text,
          line: JSON.stringify(what),
        }),
    },
    timeoutMs: TIMEOUT_MS,
    ...options,
  });
  atEnd(() => store.close());
  return { store, database, user, logged };
}

/** The same on a server that does what the test says. */
export async function openFakeStore(
  server?: Partial<ImapServer>,
  options?: Partial<ImapOptions>,
): Promise<OpenedStore & { readonly server: FakeServer }> {
  const fake = await startFakeServer();
  return { ...(await openImapStore(fake.port, server, options)), server: fake };
}
