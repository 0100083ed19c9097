/** `@postroom/sdk/mail`: the mailboxes of one account, also without a network. */
import type { MailClient } from './mail/client.ts';
import { type ClientOptions, StoredMailClient } from './mail/mail-client.ts';
import { memoryStore } from './mail/memory-store.ts';
import { type Platform, thisPlatform } from './mail/platform.ts';
import { type MailToken, ownerOf, type TokenSource } from './mail/server.ts';
import type { Row, Store } from './mail/store.ts';
import { readBaseUrl } from './transport.ts';

export type { ErrorCode, FieldError } from './errors.ts';
export { ApiError, ConnectionError } from './errors.ts';
export type * from './mail/client.ts';
export { type MemoryStore, memoryStore } from './mail/memory-store.ts';
export type { Platform } from './mail/platform.ts';
export { type MailToken, SessionEnded, type TokenSource } from './mail/server.ts';
export type {
  Change,
  Decide,
  Durability,
  Key,
  Lock,
  RangeQuery,
  Row,
  Store,
  TableName,
} from './mail/store.ts';

/** Whose mailboxes are opened, and where their copy is kept. */
export interface MailOptions {
  /** Address of the server: `https://mail.example`. */
  readonly baseUrl: string;
  /** Gives a token whenever one is needed, or the password. Neither is ever stored. */
  readonly auth: TokenSource | { readonly address: string; readonly password: string };
  /** Of the account; needed where tokens do not name it and nothing is stored yet. */
  readonly address?: string;
  /** Where the copy is kept; in memory when left out. */
  readonly store?: Store;
  /** `all`: every mailbox is kept; INBOX, Sent, Drafts and those that were opened when left out. */
  readonly sync?: 'all';
  /** Octets of texts that are kept for reading without a network; 50 MB when left out, 0 fetches none ahead. */
  readonly bodyBudget?: number;
  /** Name and version of your program, for the server's log: `crm/2.1`. */
  readonly app?: string;
  /** In place of parts of the one this runs on: for tests. */
  readonly platform?: Partial<Platform>;
}

/**
 * Opens the copy of an account's mailboxes, and keeps it up to date. Resolves once the copy can be read: without
 * waiting for the network where it is known whose it is.
 *
 * @throws TypeError where it cannot be known whose mailboxes they are
 */
export async function openMail(options: MailOptions): Promise<MailClient> {
  const { app, auth, sync, bodyBudget = 50_000_000 } = options;
  const platform = { ...thisPlatform(), ...options.platform };
  const baseUrl = readBaseUrl(options.baseUrl);
  const { store } = options;
  const accounts = await store?.range({ table: 'accounts', prefix: [] }).catch(() => undefined);
  // Plain JavaScript may leave `auth` out.
  const { address: own = soleAccount(accounts ?? [], baseUrl) } = Object(auth) as {
    address?: string;
  };
  let known = options.address ?? own;
  let first: MailToken | undefined;
  if (known === undefined && typeof auth === 'function') {
    first = await auth();
    known = ownerOf(first.token);
  }
  const address = known?.toLowerCase();
  if (!address)
    throw new TypeError(
      'address is missing: `address`, `auth` or the token must name the account, as ada@acme.test',
    );
  const start = async (place: Pick<ClientOptions, 'store' | 'storage'>) => {
    // A login may give a token once: the one that said whose it is, is used.
    const next = async () => {
      const token = first;
      first = undefined;
      return token ?? (await (auth as TokenSource)());
    };
    const how = { app, syncAll: sync === 'all', bodyBudget, platform };
    const client = new StoredMailClient({
      baseUrl,
      address,
      auth: first ? next : auth,
      ...how,
      ...place,
    });
    await client.start();
    return client;
  };
  const inMemory = () => start({ store: memoryStore(), storage: 'memory' });
  // A store that cannot be read, or not be written, is no reason to show no mail.
  return store && accounts
    ? await start({ store, storage: 'stored' }).catch(inMemory)
    : await inMemory();
}

/** The account of this server that the store has, where it is the only one. */
function soleAccount(accounts: readonly Row[], baseUrl: string): string | undefined {
  const mine = accounts.filter(
    ({ origin, signedOut }) => origin === new URL(baseUrl).origin && !signedOut,
  );
  return mine.length === 1 ? String(mine[0]?.address) : undefined;
}
