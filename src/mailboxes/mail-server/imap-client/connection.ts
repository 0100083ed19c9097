/**
 * One logged-in connection to the IMAP server, for one account: commands with deadlines, and the
 * mailbox that is selected on it.
 */
import type { ImapFlow } from 'imapflow';
import { isRefusal, Refusal } from '../../../platform/errors/errors.ts';
import { HOUR_MS } from '../../../platform/time/time.ts';
import { encodeMailboxName, UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import { ImapFailure, nameFailure, nameLateness } from './failure.ts';
import { readSelectCode, type SelectAnswer, type Selected } from './selected.ts';
import {
  type Argument,
  atom,
  type CommandLayer,
  commandLayer,
  type ImapResponse,
  listOf,
  numberOf,
  quoted,
  readFlags,
  textOf,
} from './wire.ts';

export interface ServerAddress {
  readonly host: string;
  readonly port: number;
  /** `implicit`: from the first byte; `starttls`: before the login, always; `off`: never. */
  readonly tls: 'implicit' | 'starttls' | 'off';
  /** Whether the certificate is verified. */
  readonly verifyCertificate: boolean;
  /** PEM of the authority that the certificate has to come from, instead of the public ones. */
  readonly ca?: string;
}

/** How TLS of Node verifies the server's certificate. */
export function tlsOptions({ verifyCertificate, ca }: ServerAddress) {
  return { rejectUnauthorized: verifyCertificate, ...(ca !== undefined && { ca }) };
}

export interface ImapLogin {
  readonly user: string;
  readonly pass: string;
  /** SASL PLAIN authorization identity (RFC 4616). */
  readonly authzid?: string;
}

export interface ConnectOptions {
  readonly server: ServerAddress;
  readonly login: ImapLogin;
  /** Milliseconds without a byte after which a command has failed. */
  readonly timeoutMs: number;
}

export type Untagged = Readonly<Record<string, (response: ImapResponse) => void>>;

/** A command that is still being answered after this many timeouts is cut off. */
const LONGEST_COMMAND = 10;

/** Longest line in octets: enough for the UIDs of a mailbox with a million messages. */
const LINE_MAX = 16 * 1024 * 1024;
/** Longest literal; sources are fetched in smaller pieces. */
const LITERAL_MAX = 8 * 1024 * 1024;
/** imapflow's own watchdog; idle connections are closed long before. */
const SOCKET_TIMEOUT_MS = HOUR_MS;

export class Connection {
  readonly #client: ImapFlow;
  readonly #layer: CommandLayer;
  readonly #timeoutMs: number;
  readonly #extensions: ReadonlySet<string>;
  #qresync = false;
  #selected: Selected | undefined;
  #failure: ImapFailure | undefined;

  private constructor(client: ImapFlow, timeoutMs: number) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
    this.#layer = commandLayer(client);
    this.#extensions = new Set([...client.capabilities.keys()].map((name) => name.toUpperCase()));
    client.on('error', (error: unknown) => {
      this.#failure ??= nameFailure(error);
    });
    client.once('close', () => {
      this.#failure ??= new ImapFailure('dropped');
    });
    // Changes that are reported between two commands are handled like those within one.
    for (const [name, note] of Object.entries(this.#notes())) {
      this.#layer.untaggedHandlers[name] = async (response) => note(response);
    }
  }

  /** @throws ImapFailure */
  static async open({ server, login, timeoutMs }: ConnectOptions): Promise<Connection> {
    // Loaded here: few services use an IMAP server, and the library is a tenth of what a start loads.
    const { ImapFlow } = await import('imapflow');
    const client = new ImapFlow({
      host: server.host,
      port: server.port,
      secure: server.tls === 'implicit',
      ...(server.tls !== 'implicit' && { doSTARTTLS: server.tls === 'starttls' }),
      tls: tlsOptions(server),
      auth: login,
      clientInfo: { name: 'postroom' },
      logger: false,
      disableAutoIdle: true,
      disableCompression: true,
      // We enable extensions ourselves. UTF8=ACCEPT and IMAP4rev2 would change how names and answers are written.
      disableAutoEnable: true,
      connectionTimeout: timeoutMs,
      greetingTimeout: timeoutMs,
      socketTimeout: SOCKET_TIMEOUT_MS,
      maxLineLength: LINE_MAX,
      maxLiteralSize: LITERAL_MAX,
      maxResponseSize: 4 * LITERAL_MAX,
    });
    client.on('error', () => undefined);
    const timeout = AbortSignal.timeout(timeoutMs);
    const close = () => client.close();
    timeout.addEventListener('abort', close);
    try {
      await client.connect();
      const connection = new Connection(client, timeoutMs);
      await connection.#enable();
      return connection;
    } catch (error) {
      client.close();
      throw timeout.aborted ? nameLateness(client) : nameFailure(error, 'LOGIN');
    } finally {
      timeout.removeEventListener('abort', close);
    }
  }

  /** RFC 7162 section 3.2.3: before the first SELECT, so that MODSEQs count from the start on. */
  async #enable(): Promise<void> {
    if (!this.has('QRESYNC') || !this.has('ENABLE')) return;
    await this.command('ENABLE', [atom('CONDSTORE'), atom('QRESYNC')], {
      ENABLED: ({ attributes }) => {
        for (const item of attributes ?? []) {
          if (textOf(item)?.toUpperCase() === 'QRESYNC') this.#qresync = true;
        }
      },
    });
  }

  has(extension: string): boolean {
    return this.#extensions.has(extension);
  }

  get hasQresync(): boolean {
    return this.#qresync;
  }

  get selected(): Selected | undefined {
    return this.#selected;
  }

  get isOpen(): boolean {
    return this.#failure === undefined && this.#client.usable;
  }

  /** Called once, when the connection has ended for any reason. */
  onClose(listener: () => void): void {
    if (this.isOpen) this.#client.once('close', listener);
    else queueMicrotask(listener);
  }

  /** Ends it at once; a command under way fails with `reason`. */
  destroy(reason: ImapFailure = new ImapFailure('dropped')): void {
    this.#failure ??= reason;
    this.#client.close();
  }

  /**
   * Sends a command and passes its untagged responses to `on`, by their names.
   *
   * @returns the tagged OK
   * @throws ImapFailure; after `silent`, `dropped` and `garbled` the connection is closed
   */
  async command(
    name: string,
    args: readonly Argument[] = [],
    on: Untagged = {},
  ): Promise<ImapResponse> {
    if (this.#failure) throw this.#failure;
    let thrown: { readonly error: unknown } | undefined;
    const notes = this.#notes();
    const handlers: Record<string, (response: ImapResponse) => void> = { ...notes, ...on };
    // A removal during this session is a change of the mailbox, also while past removals are requested (RFC 7162
    // section 3.2.10).
    const { VANISHED: earlier } = on;
    if (earlier) {
      handlers.VANISHED = (response) =>
        Array.isArray(response.attributes?.[0]) ? earlier(response) : notes.VANISHED?.(response);
    }
    const untagged: Record<string, (response: ImapResponse) => Promise<void>> = {};
    for (const [key, handle] of Object.entries(handlers)) {
      untagged[key] = async (response) => {
        try {
          if (!thrown) handle(response);
        } catch (error) {
          thrown = { error };
        }
      };
    }
    const stop = this.#watch(name);
    try {
      const { response, next } = await this.#layer.exec(name, args, { untagged });
      next();
      if (thrown) throw thrown.error;
      return response;
    } catch (error) {
      if (thrown && error === thrown.error) throw error;
      throw this.#failWith(error, name);
    } finally {
      stop();
    }
  }

  #failWith(error: unknown, command: string): ImapFailure {
    const failure = this.#failure ?? nameFailure(error, command);
    const kind = isMailboxLost(failure, command) ? 'lost' : failure.kind;
    const named = new ImapFailure(kind, { ...failure.details, command });
    if (!['said_no', 'said_bad'].includes(named.kind)) this.destroy(named);
    return named;
  }

  /** Destroys the connection when the server is silent for too long, or its answer never ends. */
  #watch(command: string): () => void {
    let received = this.#client.stats().received;
    let left = LONGEST_COMMAND;
    const timer = setInterval(() => {
      const now = this.#client.stats().received;
      if (now !== received && --left > 0) received = now;
      else this.destroy(new ImapFailure('silent', { command }));
    }, this.#timeoutMs);
    return () => clearInterval(timer);
  }

  /** Handlers for what the server reports about the selected mailbox without a request (RFC 3501 section 7). */
  #notes(): Record<string, (response: ImapResponse) => void> {
    return {
      EXISTS: ({ command }) =>
        this.#note((selected) => {
          selected.exists = numberOf(command) ?? selected.exists;
        }),
      EXPUNGE: () =>
        this.#note((selected) => {
          selected.exists = Math.max(0, selected.exists - 1);
        }),
      VANISHED: ({ attributes }) => {
        const [first] = attributes ?? [];
        const uids = Array.isArray(first) ? undefined : UidSet.parse(textOf(first) ?? '');
        if (!uids) return;
        this.#note((selected) => {
          selected.exists = Math.max(0, selected.exists - uids.size);
          selected.gone.push(uids);
        });
      },
      FETCH: () => this.#note(() => undefined),
    };
  }

  #note(change: (selected: Selected) => void): void {
    if (!this.#selected) return;
    this.#selected.news = true;
    change(this.#selected);
  }

  /**
   * Opens a mailbox again, so that what follows is one fresh state of it.
   *
   * @param how read-only leaves `\Recent` alone (RFC 3501 section 6.3.2)
   * @param args such as QRESYNC parameters
   * @throws Refusal `mailbox_not_found` where the server refuses the name
   */
  async select(
    mailbox: string,
    how: 'EXAMINE' | 'SELECT',
    args: readonly Argument[] = [],
    on: Untagged = {},
  ): Promise<Selected> {
    this.#selected = undefined;
    const seen: SelectAnswer = {
      exists: 0,
      uidnext: undefined,
      uidvalidity: '',
      modseq: undefined,
      keywords: [],
    };
    try {
      await this.command(how, [quoted(encodeMailboxName(mailbox)), ...args], {
        ...on,
        OK: (response) => readSelectCode(response, seen),
        EXISTS: ({ command }) => {
          seen.exists = numberOf(command) ?? seen.exists;
        },
        FLAGS: ({ attributes }) => {
          const flags = readFlags(listOf(attributes?.[0]));
          seen.keywords = flags.filter((flag) => !flag.startsWith('\\'));
        },
      });
    } catch (error) {
      throw await this.#explainRefusal(mailbox, error);
    }
    const { exists, uidvalidity, modseq, keywords } = seen;
    if (uidvalidity === '') throw new ImapFailure('garbled', { command: how });
    this.#selected = {
      mailbox,
      readOnly: how === 'EXAMINE',
      uidvalidity,
      uidnext: 0,
      exists,
      modseq: modseq === 0n ? undefined : modseq,
      keywords,
      news: false,
      gone: [],
    };
    const uidnext = seen.uidnext ?? (await this.#findUidnext(exists));
    this.#selected = { ...this.#selected, uidnext };
    return this.#selected;
  }

  /**
   * The meaning of a NO to SELECT. Every account has an INBOX (RFC 3501 section 5.1). A server that refuses INBOX
   * denies access to the master by ACLs (RFC 4314), and says that the other mailboxes do not exist. If we passed
   * that on, an app would drop its copy of them.
   */
  async #explainRefusal(mailbox: string, error: unknown): Promise<unknown> {
    if (!(error instanceof ImapFailure) || error.kind !== 'said_no' || error.isTemporary)
      return error;
    const { said, command = 'SELECT' } = error.details;
    const noAccess = new ImapFailure('no_access', { command, ...(said !== undefined && { said }) });
    if (mailbox === 'INBOX' || /^NOPERM$/i.test(error.details.responseCode ?? '')) return noAccess;
    try {
      await this.command('STATUS', [quoted('INBOX'), [atom('UIDVALIDITY')]]);
      return mailboxNotFound(mailbox);
    } catch (refusal) {
      const isNo = refusal instanceof ImapFailure && refusal.kind === 'said_no';
      return isNo && !refusal.isTemporary ? noAccess : refusal;
    }
  }

  /** Servers may leave UIDNEXT out (RFC 3501 section 6.3.1): then it is one more than the last. */
  async #findUidnext(exists: number): Promise<number> {
    if (exists === 0) return 1;
    let last = 0;
    await this.command('FETCH', [{ type: 'SEQUENCE', value: '*' }, atom('UID')], {
      FETCH: ({ attributes }) => {
        last = numberOf(listOf(attributes?.[1])[1]) ?? last;
      },
    });
    return last + 1;
  }

  /** Closes the mailbox without expunging, so that STATUS returns current numbers of it, too. */
  async unselect(): Promise<void> {
    const selected = this.#selected;
    if (!selected) return;
    if (!selected.readOnly && !this.has('UNSELECT')) await this.select(selected.mailbox, 'EXAMINE');
    // CLOSE of a mailbox that was opened by EXAMINE expunges nothing (RFC 3501 section 6.4.2).
    await this.command(this.has('UNSELECT') ? 'UNSELECT' : 'CLOSE');
    this.#selected = undefined;
  }
}

/**
 * Whether a NO to a reading command means that the open mailbox was deleted. RFC 2180 section 3.3 leaves it to the
 * server what a session gets then; Cyrus says NO until the session ends.
 */
function isMailboxLost(failure: ImapFailure, command: string): boolean {
  const isExpunged = /^EXPUNGEISSUED$/i.test(failure.details.responseCode ?? '');
  return (
    failure.kind === 'said_no' &&
    ['UID FETCH', 'UID SEARCH', 'FETCH', 'NOOP'].includes(command) &&
    !isExpunged &&
    !failure.isTemporary
  );
}

export function mailboxNotFound(mailbox: string): Refusal {
  return new Refusal('mailbox_not_found', `there is no mailbox "${mailbox}"`);
}

export const isMissing = isRefusal('mailbox_not_found');
