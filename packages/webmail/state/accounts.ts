/** The accounts that are signed in here, each with its client and what it tells. */
import { computed, nextTick, type ShallowRef, shallowReactive, shallowRef } from 'vue';
import { keptLogins, signIn as logIn, type MailLogin } from '../../sdk/src/login.ts';
import type {
  MailboxInfo,
  MailClient,
  MailMessage,
  MailState,
  Operation,
  SentMail,
} from '../../sdk/src/mail/client.ts';
import { memoryStore, openMail, type Store } from '../../sdk/src/mail.ts';
import { indexedDbStore } from '../../sdk/src/stores/indexeddb.ts';
import { subjectOf } from '../reading/stranger-text.ts';
import { reasonOf } from '../ui/format.ts';
import { announce, say, sayFailure } from '../ui/toasts.tsx';
import { describeOperation, titleOf } from './describe.ts';
import { opens } from './overlay.ts';
import { type Account, refused, stopWriting, writing } from './parts.ts';
import { go, isPanelOpen, route } from './route.ts';

const server = { baseUrl: location.origin, app: 'webmail' };

/** Mail goes out at its time or some seconds after it: it is looked at then, and again. */
const SOON_MS = 1000;
const AGAIN_MS = 10_000;
const HOUR_MS = 3_600_000;

/** A change that the server refused. */
interface Refused {
  readonly operation: Operation;
  readonly reason: string;
  /** Takes away what was said of it. */
  readonly unsay: () => void;
}

export class OpenAccount implements Account {
  readonly address: string;
  login: MailLogin;
  /** Whoever signs in again has a client that goes on with the copy of the one before. */
  readonly #client: ShallowRef<MailClient>;
  /** Takes away what was said of the end of the login. */
  #unsay = () => {};
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Mail that waited when the page was opened: no form has its text, where it is refused. */
  #left: ReadonlySet<string> = new Set();
  /** The copy of a login of this tab, which leaves nothing on the machine. */
  readonly #memory: Store | undefined;
  readonly live = shallowReactive({
    state: 'cached' as MailState,
    stateReason: undefined as string | undefined,
    mailboxes: [] as readonly MailboxInfo[],
    pending: [] as readonly Operation[],
    refused: [] as readonly Refused[],
    /** Mail that goes out later: its copy in Sent is there already, and its draft is there until then. */
    waiting: [] as readonly SentMail[],
  });

  private constructor(login: MailLogin, memory: Store | undefined, client: MailClient) {
    this.address = login.address;
    this.login = login;
    this.#memory = memory;
    this.#client = shallowRef(client);
    this.#follow();
  }

  static async open(login: MailLogin): Promise<OpenAccount> {
    const memory = login.remembered ? undefined : memoryStore();
    return new OpenAccount(login, memory, await openClient(login, memory));
  }

  get client(): MailClient {
    return this.#client.value;
  }

  /** After its login was over. */
  async signIn(login: MailLogin): Promise<void> {
    await this.client.close();
    this.login = login;
    this.#client.value = await openClient(login, this.#memory);
    this.#follow();
    // Another tab may lead, whose session is over as well: it has the new login, too.
    this.client.reconnect();
  }

  /** The login that the tabs share was ended in another one. */
  async leave(): Promise<void> {
    accounts.value = accounts.value.filter((one) => one !== this);
    this.#unsay();
    say(`${this.address} was signed out in another tab`);
    await this.client.close();
  }

  #follow(): void {
    const { client, live } = this;
    const take = (told: Partial<typeof live>) => Object.assign(live, told);
    const readWaiting = () => void this.#readWaiting(client);
    live.state = client.state;
    client.on('state', (told) => {
      take(told);
      this.#unsay();
      if (told.state === 'live' || told.state === 'polling') readWaiting();
      // On a phone nothing else says so while mail is read or written.
      if (told.state === 'stopped' && accounts.value.includes(this)) {
        const signInHere = () => {
          if (current.value !== this) go({ address: this.address, mailbox: 'INBOX' });
          // The page closes what is open over another account.
          void nextTick(opens('sign-in'));
        };
        const action = { label: 'Sign in', run: signInHere };
        const who = accounts.value.length > 1 ? `${this.address} was` : 'You were';
        this.#unsay = say(`${who} signed out`, {
          tone: 'failed',
          action,
          forMs: Number.POSITIVE_INFINITY,
        });
      }
    });
    client.on('mailboxes', (told) => {
      const before = sentIn(live.mailboxes);
      take(told);
      // Mail for later was written or taken back, here or on another device.
      if (sentIn(told.mailboxes) !== before) readWaiting();
    });
    client.on('pending', (told) => {
      take(told);
      // Another tab may have made a draft of something, or thrown it away.
      const left = unsettled(client);
      this.#unlist(({ operation }) => !left.has(operation.id));
    });
    let isOfBefore = true;
    const failed = (operation: Operation, reason: string, text: string) => {
      const hasForm = !isOfBefore && !this.#left.has(operation.id);
      const keep = () => void this.settle(operation, 'undo');
      const action =
        isMail(operation) && !hasForm ? { label: 'Keep as a draft', run: keep } : undefined;
      const forMs = action ? Number.POSITIVE_INFINITY : 20_000;
      // What was said before the page was opened stays listed alone, unless its text would be lost.
      const unsay = isOfBefore && !action ? () => {} : say(text, { tone: 'failed', action, forMs });
      live.refused = [...live.refused, { operation, reason, unsay }];
    };
    this.#unlist(() => true);
    client.on('rejected', ({ operation, error }) => {
      const reason = reasonOf(error);
      failed(operation, reason, `${describeOperation(operation)} was refused: ${reason}`);
    });
    client.on('dropped', ({ operation, error }) => {
      const what = describeOperation(operation);
      sayFailure(`${what} was refused before, and there is no room to keep its text`, error);
    });
    client.on('uncertain', ({ operation }) => {
      const text = 'Whether a mail was sent is not known. Look into Sent before you send it again.';
      failed(operation, 'it is not known whether it was sent', text);
    });
    isOfBefore = false;
    client.on('received', ({ messages: [first] }) => {
      if (first) announce(`New mail: ${subjectOf(first.envelope)}`);
    });
    void this.#look();
  }

  async settle(operation: Operation, how: 'undo' | 'forget'): Promise<void> {
    this.#unlist((one) => one.operation.id === operation.id);
    try {
      await operation[how]();
    } catch (error) {
      sayFailure('It failed', error);
    }
  }

  #unlist(isOver: (one: Refused) => boolean): void {
    const { live } = this;
    for (const { unsay } of live.refused.filter(isOver)) unsay();
    live.refused = live.refused.filter((one) => !isOver(one));
  }

  /** Again once the next one goes out; each hour too, since another device may have taken one back. */
  async #readWaiting(client: MailClient): Promise<void> {
    clearTimeout(this.#timer);
    // Without an answer, what was known stays.
    const sends = await client.sends().catch(() => undefined);
    if (!sends || client !== this.client) return;
    const waiting = sends.filter(({ status, sendAt }) => status === 'queued' && sendAt);
    this.live.waiting = waiting;
    if (waiting.length === 0) return;
    const next = Math.min(...waiting.map(({ sendAt = '' }) => Date.parse(sendAt))) - Date.now();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => void this.#readWaiting(client),
      Math.min(next > 0 ? next + SOON_MS : AGAIN_MS, HOUR_MS),
    );
  }

  /** What the copy has already. */
  async #look(): Promise<void> {
    this.live.pending = await this.client.pending();
    this.#left = new Set(this.live.pending.filter(isMail).map(({ id }) => id));
    this.live.mailboxes = await this.client.mailboxes();
  }
}

/** Whether somebody wrote it: it can be a draft. */
export const isMail = ({ kind }: Operation): boolean => kind === 'send' || kind === 'append';

/** The ids of what was refused, and is neither a draft again nor thrown away: each new listener is told of those. */
function unsettled(client: MailClient): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const name of ['rejected', 'uncertain'] as const)
    client.on(name, ({ operation }) => ids.add(operation.id))();
  return ids;
}

const sentIn = (mailboxes: readonly MailboxInfo[]) =>
  mailboxes.find(({ specialUse }) => specialUse === '\\Sent')?.total;

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

/** Its special use (RFC 6154); empty where it has none. */
export function specialUseOf(name: string): string {
  return mailboxes.value.get(name)?.specialUse ?? '';
}

/** The mail that goes out later of which a message is the copy in Sent, or the draft. */
export function waitsAs({ mailbox, id, envelope }: MailMessage): SentMail | undefined {
  return current.value?.live.waiting.find(
    ({ messageId, draft }) =>
      messageId === envelope.messageId || (draft?.mailbox === mailbox && draft.id === id),
  );
}

export const isTrash = (name: string): boolean => specialUseOf(name) === '\\Trash';

/** As `titleOf`; a mailbox that is not known yet goes by its name. */
export function titleOfName(name: string): string {
  const mailbox = mailboxes.value.get(name);
  return mailbox ? titleOf(mailbox) : name;
}

function openClient({ address, token }: MailLogin, memory: Store | undefined): Promise<MailClient> {
  return openMail({ ...server, address, store: memory ?? indexedDbStore(), auth: token });
}

async function open(login: MailLogin): Promise<void> {
  // The protocol shows the first call too. An account opens without it where it cannot be loaded.
  if (isPanelOpen.value) await import('../panel/panel.tsx').catch(() => undefined);
  accounts.value = [...accounts.value, await OpenAccount.open(login)];
}

/** Opens what was signed in before. Cached mail is there without a network. */
export async function openKept(): Promise<void> {
  for (const login of keptLogins(server)) await open(login);
}

/**
 * @param remember the browser remembers the login, and keeps a copy of the mail
 * @throws ApiError, ConnectionError
 */
export async function signIn(address: string, password: string, remember: boolean): Promise<void> {
  const login = await logIn({ ...server, address, password, remember });
  const before = accounts.value.find((account) => account.address === login.address);
  await (before ? before.signIn(login) : open(login));
  if (route.value.address !== login.address)
    go({ address: login.address, mailbox: 'INBOX' }, 'replace');
}

/** Ends the login and removes the copy. */
export async function signOut(account: OpenAccount): Promise<void> {
  accounts.value = accounts.value.filter((one) => one !== account);
  stopWriting(account);
  await account.client.signOut();
  await account.login.end();
}

addEventListener('storage', () => {
  const kept = new Set(keptLogins(server).map(({ address }) => address));
  for (const account of accounts.value) {
    const { address, login } = account;
    // What is being written stays: whoever signs in again can send it.
    const isWriting = [writing.value, ...refused.value].some((one) => one?.account === account);
    if (login.remembered && !kept.has(address) && !isWriting) void account.leave();
  }
});

// A change that is only in memory would be lost; one in the copy is not.
addEventListener('beforeunload', (event) => {
  const isLost = ({ client, live }: OpenAccount) =>
    client.storage === 'memory' &&
    (live.pending.length > 0 || live.refused.some(({ operation }) => isMail(operation)));
  if (refused.value.length > 0 || accounts.value.some(isLost)) event.preventDefault();
});
