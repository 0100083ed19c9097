/** The accounts that are signed in here, each with its client and what it tells. */
import { computed, shallowReactive, shallowRef } from 'vue';
import type { MailboxInfo, MailClient, MailState, Operation } from '../../sdk/src/mail/client.ts';
import { memoryStore, openMail } from '../../sdk/src/mail.ts';
import { indexedDbStore } from '../../sdk/src/stores/indexeddb.ts';
import { announce, say } from '../ui/toasts.tsx';
import { describeOperation } from './describe.ts';
import type { Account } from './parts.ts';
import { remember } from './remembered.ts';
import { go, route } from './route.ts';
import { type Login, Session, SLOTS } from './session.ts';

/** Logins that a new tab has as well. */
const staying = remember<readonly Login[]>('logins', []);
/** Logins of this tab. */
const IN_TAB = 'postroom-webmail-logins';

/** A change that the server refused. */
export interface Refused {
  readonly operation: Operation;
  readonly reason: string;
}

export class OpenAccount implements Account {
  readonly address: string;
  readonly client: MailClient;
  readonly session: Session;
  /** Ids of changes whose end is waited for. */
  readonly #awaited = new Set<string>();
  readonly live = shallowReactive({
    state: 'cached' as MailState,
    reason: undefined as string | undefined,
    mailboxes: [] as readonly MailboxInfo[],
    pending: [] as readonly Operation[],
    refused: [] as readonly Refused[],
    /** Grows with each change of what is stored. */
    changes: 0,
  });

  constructor(client: MailClient, session: Session) {
    this.address = session.login.address;
    this.client = client;
    this.session = session;
    this.live.state = client.state;
    this.#follow();
    void this.look();
  }

  #follow(): void {
    const { client, live } = this;
    client.on('state', ({ state, stateReason }) => {
      live.state = state;
      live.reason = stateReason;
      live.changes++;
      void this.look();
    });
    client.on('mailboxes', ({ mailboxes }) => {
      live.mailboxes = mailboxes;
      void this.look();
    });
    client.on('rejected', ({ operation, error }) => {
      live.refused = [...live.refused, { operation, reason: error.message }];
      say(`${describeOperation(operation)} was refused: ${error.message}`, {
        tone: 'failed',
        forMs: 20_000,
      });
    });
    client.on('uncertain', ({ operation }) => {
      live.refused = [
        ...live.refused,
        { operation, reason: 'it is not known whether it was sent' },
      ];
      say('Whether a mail was sent is not known. Look into Sent before you send it again.', {
        tone: 'failed',
        forMs: Number.POSITIVE_INFINITY,
      });
    });
    client.on('received', ({ messages }) => {
      const [first] = messages;
      if (first) announce(`New mail: ${first.envelope.subject || 'no subject'}`);
    });
  }

  /** Looks what has not reached the server, now and whenever one of these changes is over. */
  async look(): Promise<void> {
    const pending = await this.client.pending();
    this.live.pending = pending;
    this.live.mailboxes = await this.client.mailboxes();
    for (const { id, applied } of pending.filter((one) => !this.#awaited.has(one.id))) {
      this.#awaited.add(id);
      const over = () => {
        this.#awaited.delete(id);
        void this.look();
      };
      applied.then(over, over);
    }
  }
}

export const accounts = shallowRef<readonly OpenAccount[]>([]);

/** The account that the page shows; undefined where nobody is signed in. */
export const current = computed(
  () => accounts.value.find(({ address }) => address === route.value.address) ?? accounts.value[0],
);

async function open(session: Session): Promise<OpenAccount> {
  const { login } = session;
  const stays = login.slot !== undefined;
  const client = await openMail({
    baseUrl: location.origin,
    address: login.address,
    // A login of this tab leaves nothing on the machine.
    store: stays ? indexedDbStore() : memoryStore(),
    auth: () => session.token(),
    app: 'webmail',
  });
  const account = new OpenAccount(client, session);
  accounts.value = [...accounts.value, account];
  return account;
}

/** Opens what was signed in before. Cached mail is there without a network. */
export async function openRemembered(): Promise<void> {
  for (const login of [...staying.value, ...inTab()]) await open(new Session(login));
}

/**
 * @param stay the browser remembers the login, and keeps a copy of the mail
 * @throws ApiError, ConnectionError
 */
export async function signIn(address: string, password: string, stay: boolean): Promise<void> {
  const name = address.trim().toLowerCase();
  const before = accounts.value.find((account) => account.address === name);
  const taken = new Set(staying.value.map(({ slot }) => slot));
  const free = Array.from({ length: SLOTS }, (_, index) => index).find((one) => !taken.has(one));
  const slot = stay ? (before?.session.login.slot ?? free) : undefined;
  const session = new Session({ address: name, ...(slot !== undefined && { slot }) });
  await session.signIn(password);
  if (before) await close(before);
  if (slot === undefined) keepInTab([...inTab(), session.login]);
  else staying.value = [...staying.value, session.login];
  await open(session);
  go({ address: name, mailbox: 'INBOX' }, 'replace');
}

/** Ends the login and removes the copy. */
export async function signOut(account: OpenAccount): Promise<void> {
  await account.client.signOut();
  await account.session.end();
  forget(account);
}

/** Closes an account whose login is made anew; its copy stays. */
async function close(account: OpenAccount): Promise<void> {
  await account.client.close();
  forget(account);
}

function forget({ address }: OpenAccount): void {
  const others = (login: { readonly address: string }) => login.address !== address;
  staying.value = staying.value.filter(others);
  keepInTab(inTab().filter(others));
  accounts.value = accounts.value.filter(others);
}

function inTab(): readonly Login[] {
  return JSON.parse(sessionStorage.getItem(IN_TAB) ?? '[]') as Login[];
}

function keepInTab(logins: readonly Login[]): void {
  sessionStorage.setItem(IN_TAB, JSON.stringify(logins));
}

// A change that is only in memory would be lost; one in the copy is not.
addEventListener('beforeunload', (event) => {
  const isLost = ({ client, live }: OpenAccount) =>
    client.storage === 'memory' && live.pending.length > 0;
  if (accounts.value.some(isLost)) event.preventDefault();
});
