/** The accounts that are signed in here, each with its client and what it tells. */
import { computed, shallowReactive, shallowRef } from 'vue';
import type { MailboxInfo, MailClient, MailState, Operation } from '../../sdk/src/mail/client.ts';
import { memoryStore, openMail } from '../../sdk/src/mail.ts';
import { indexedDbStore } from '../../sdk/src/stores/indexeddb.ts';
import { subjectOf } from '../reading/stranger-text.ts';
import { announce, say } from '../ui/toasts.tsx';
import { describeOperation, titleOf } from './describe.ts';
import type { Account } from './parts.ts';
import { remember } from './remembered.ts';
import { go, route } from './route.ts';
import { type Login, Session, SLOTS } from './session.ts';

/** Logins that a new tab has as well. */
const staying = remember<readonly Login[]>('logins', []);
/** Logins of this tab. */
const inTab = remember<readonly Login[]>('logins', [], sessionStorage);

/** A change that the server refused. */
interface Refused {
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
    client.on('mailboxes', () => void this.look());
    client.on('rejected', ({ operation, error }) => {
      live.refused = [...live.refused, { operation, reason: error.message }];
      const text = `${describeOperation(operation)} was refused: ${error.message}`;
      say(text, { tone: 'failed', forMs: 20_000 });
    });
    client.on('uncertain', ({ operation }) => {
      const reason = 'it is not known whether it was sent';
      live.refused = [...live.refused, { operation, reason }];
      const text = 'Whether a mail was sent is not known. Look into Sent before you send it again.';
      say(text, { tone: 'failed', forMs: Number.POSITIVE_INFINITY });
    });
    client.on('received', ({ messages: [first] }) => {
      if (first) announce(`New mail: ${subjectOf(first.envelope)}`);
    });
  }

  /** Looks what has not reached the server, now and whenever one of these changes is over. */
  async look(): Promise<void> {
    this.live.pending = await this.client.pending();
    this.live.mailboxes = await this.client.mailboxes();
    for (const { id, applied } of this.live.pending) {
      if (this.#awaited.has(id)) continue;
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

/** Those of the account that the page shows, by name. */
export const mailboxes = computed(
  () => new Map(current.value?.live.mailboxes.map((mailbox) => [mailbox.name, mailbox])),
);

/** The mailbox that the page shows. */
export const here = computed(() => mailboxes.value.get(route.value.mailbox));

/** As `titleOf`; a mailbox that is not known yet goes by its name. */
export function titleOfName(name: string): string {
  const mailbox = mailboxes.value.get(name);
  return mailbox ? titleOf(mailbox) : name;
}

async function open(session: Session): Promise<void> {
  const { address, slot } = session.login;
  const client = await openMail({
    baseUrl: location.origin,
    address,
    // A login of this tab leaves nothing on the machine.
    store: slot === undefined ? memoryStore() : indexedDbStore(),
    auth: () => session.token(),
    app: 'webmail',
  });
  accounts.value = [...accounts.value, new OpenAccount(client, session)];
}

/** Opens what was signed in before. Cached mail is there without a network. */
export async function openRemembered(): Promise<void> {
  for (const login of [...staying.value, ...inTab.value]) await open(new Session(login));
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
  if (before) {
    // Its copy stays.
    await before.client.close();
    forget(before);
  }
  const logins = slot === undefined ? inTab : staying;
  logins.value = [...logins.value, session.login];
  await open(session);
  go({ address: name, mailbox: 'INBOX' }, 'replace');
}

/** Ends the login and removes the copy. */
export async function signOut(account: OpenAccount): Promise<void> {
  await account.client.signOut();
  await account.session.end();
  forget(account);
}

function forget({ address }: OpenAccount): void {
  const others = (login: { readonly address: string }) => login.address !== address;
  staying.value = staying.value.filter(others);
  inTab.value = inTab.value.filter(others);
  accounts.value = accounts.value.filter(others);
}

// A change that is only in memory would be lost; one in the copy is not.
addEventListener('beforeunload', (event) => {
  const isLost = ({ client, live }: OpenAccount) =>
    client.storage === 'memory' && live.pending.length > 0;
  if (accounts.value.some(isLost)) event.preventDefault();
});
