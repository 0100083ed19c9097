/**
 * Checks who sent a message, in the pass in which it is stored: SPF, DKIM, DMARC and ARC.
 *
 * Stores nothing. Lookups start when the header was read and go on while the body comes in; a machine
 * without DNS accepts mail at full speed, unchecked.
 */
import type { Buffer } from 'node:buffer';
import { Refusal } from '../../../platform/errors/errors.ts';
import { clientKey, enterTurn, networkKey, type Party } from '../../../platform/net/net.ts';
import {
  type Authors,
  asBuffer,
  findAuthors,
  type Header,
  type HeaderField,
  HeaderReader,
  organizationalDomain,
  rawValue,
  toDnsName,
} from '../../../protocols/message/message.ts';
import { evaluateSpf } from '../../../protocols/spf/spf.ts';
import { discoverPolicy, isAligned, type PolicyDiscovery } from './evaluate-dmarc.ts';
import { findClientName } from './find-client-name.ts';
import { isClaimedResult, judgeSender, serviceName } from './judge-sender.ts';
import {
  DECIDING_OF_CLIENT,
  DECIDING_OF_NETWORK,
  DECIDING_OF_ORGANIZATION,
  type LookupType,
  MessageLookups,
  ResolverGuard,
  type SenderDns,
  Unanswered,
  type Weight,
} from './lookups.ts';
import { type Judgement, type SendingClient, type SpfVerdict, spfResults } from './verdicts.ts';
import { SignatureCheck } from './verify-signatures.ts';

export { RESULTS_MAX, type SendingClient, type Verdicts } from './verdicts.ts';

export interface SenderChecksOptions {
  readonly dns: SenderDns;
  /**
   * Called when DNS stops answering, after which mail is accepted unchecked, and when it answers again.
   */
  readonly onOutage?: (isOut: boolean) => void;
  /** Our name (MAIL_HOSTNAME): the authserv-id of what we found. */
  readonly hostname: string;
  /** Whether mail that fails a policy of `reject` is refused; else it goes to Junk. */
  readonly enforce: boolean;
  /** Whether fields of other spam filters (`X-Spam...`) are removed, since our own filter writes them. */
  readonly removesSpamFields?: boolean;
  /** Whether a client is a relay of the operator's own: it brings mail of many, and has ten shares of the lookups. */
  readonly isRelay?: (remoteAddress: string) => boolean;
  /** Whether to look up the name of a client; by default no name is looked up. */
  readonly isNameWanted?: (remoteAddress: string) => boolean;
  /** What this process did not get an answer to lately; by default these checks alone are counted. */
  readonly unanswered?: Unanswered;
  /** Milliseconds for one lookup, for all lookups of a message, and to leave a dead resolver alone. */
  readonly times?: { readonly lookupMs: number; readonly totalMs: number; readonly restMs: number };
  /** Milliseconds on a clock that never goes back. */
  readonly now?: () => number;
  /** From 0 to under 1: decides which messages a partial policy (pct=) applies to. */
  readonly random?: () => number;
}

export interface SenderChecks {
  /** Starts the check of one message: first {@link MessageCheck.through}, then {@link MessageCheck.verdicts}. */
  begin(client: SendingClient): MessageCheck;
}

const TIMES = { lookupMs: 2_000, totalMs: 5_000, restMs: 30_000 };

/** What the checks of all messages share. */
interface Shared {
  readonly options: SenderChecksOptions;
  readonly guard: ResolverGuard;
  readonly now: () => number;
  /** Our name, to tell Authentication-Results that claim to be ours. */
  readonly ownService: string;
}

/** What is under way once the header was read. */
interface PendingChecks {
  readonly header: Header;
  readonly authors: Authors;
  readonly lookups: MessageLookups;
  readonly policies: Promise<PolicyDiscovery[]>;
  readonly spf: Promise<SpfVerdict>;
  readonly signatures: SignatureCheck;
  readonly clientName: Promise<string | undefined>;
}

function startChecks(shared: Shared, client: SendingClient, header: Header): PendingChecks {
  const { options, guard, now } = shared;
  const from = header.fields.filter(({ name }) => name === 'from');
  const authors = findAuthors(from.map(rawValue));
  const partiesOf = sharesFor(options, client);
  const lookups = new MessageLookups(guard, options.times ?? TIMES, partiesOf, now);
  const dnsIsDown = guard.isDead();
  const ask = (name: string, type: LookupType) => lookups.ask(name, type, 'deciding');
  const policies = Promise.all(authors.domains.map((domain) => discoverPolicy(domain, ask)));
  const signatures = new SignatureCheck({
    header,
    authors: authors.domains,
    lookups,
    dnsIsDown,
    now: client.at,
  });
  const domain = spfDomain(client);
  const isDeciding = authors.domains.some((author) => isAligned(domain, author, false));
  const weight = isDeciding ? 'deciding' : 'other';
  const asking = { lookups, weight, hostname: options.hostname } as const;
  const spf = checkSpf(client, domain, dnsIsDown ? undefined : asking);
  const clientName = startNaming(shared, client, partiesOf);
  // The verdicts of a message that breaks off are never read.
  for (const promise of [policies, spf, clientName]) promise.catch(() => {});
  return { header, authors, lookups, policies, spf, signatures, clientName };
}

/**
 * The domain whose SPF record is evaluated: of MAIL FROM, or of HELO for the null sender, whose identity is
 * `postmaster@` that domain (RFC 7208 section 2.4). `''` where it is not a domain, such as an address literal.
 */
function spfDomain({ from, heloName }: SendingClient): string {
  const domain = from === '' ? heloName : from.slice(from.lastIndexOf('@') + 1);
  return toDnsName(domain.trim()) ?? '';
}

/**
 * Whether the client may send for the domain (RFC 7208). The limits of section 4.6.4 hold: ten terms that ask DNS, two of
 * them without an answer.
 *
 * @param asking undefined where DNS cannot be asked now
 */
async function checkSpf(
  { from, heloName, remoteAddress }: SendingClient,
  domain: string,
  asking: { lookups: MessageLookups; weight: Weight; hostname: string } | undefined,
): Promise<SpfVerdict> {
  // RFC 7208 section 4.3.
  if (!domain.includes('.')) return { result: 'none', domain };
  if (!asking) return { result: 'temperror', domain };
  const { result } = await evaluateSpf({
    // The domain that is evaluated is the one that is compared with the author's.
    sender: from === '' ? '' : `${from.slice(0, from.lastIndexOf('@'))}@${domain}`,
    helo: from === '' ? domain : heloName,
    ip: remoteAddress,
    mta: asking.hostname,
    ask: (name, type) => asking.lookups.ask(name, type, asking.weight),
  });
  return { result: spfResults.find((one) => one === result) ?? 'permerror', domain };
}

/** A relay of the operator's own has this many shares of one client. */
const SHARES_OF_RELAY = 10;

/** Whose share a lookup takes: that of the client, that of its network, and that of the organisation whose servers are asked. */
function sharesFor(
  { isRelay }: SenderChecksOptions,
  { remoteAddress }: SendingClient,
): (name: string) => readonly Party[] {
  const key = clientKey(remoteAddress);
  const own = isRelay?.(remoteAddress)
    ? [{ name: `client ${key}`, most: SHARES_OF_RELAY * DECIDING_OF_CLIENT }]
    : [
        { name: `client ${key}`, most: DECIDING_OF_CLIENT },
        { name: `network ${networkKey(key)}`, most: DECIDING_OF_NETWORK },
      ];
  return (name) => [...own, { name: organizationalDomain(name), most: DECIDING_OF_ORGANIZATION }];
}

/** The two lookups, for the name and for its addresses, share the time limit of one. */
async function startNaming(
  { options, guard, now }: Shared,
  { remoteAddress }: SendingClient,
  partiesOf: (name: string) => readonly Party[],
): Promise<string | undefined> {
  if (!options.isNameWanted?.(remoteAddress)) return undefined;
  const { lookupMs } = options.times ?? TIMES;
  const lookups = new MessageLookups(guard, { lookupMs, totalMs: lookupMs }, partiesOf, now);
  return findClientName(remoteAddress, lookups);
}

/** Fields that are judged or removed, at the start of a line, and the length of the longest in octets. */
const SENDER_FIELDS = /^(?:from|authentication-results)[ \t\r\n:]/im;
const SENDER_FIELD_MAX = 32;
/** Fields of spam filters, which mail readers and mail servers sort by. */
const SPAM_FIELD = /^x-(?:rspamd?|spam)[\w-]*/im;

class MessageCheck {
  readonly #shared: Shared;
  readonly #client: SendingClient;
  readonly #reader = new HeaderReader();
  /** The last octets that came after the longest header that is read. */
  #tail = '';
  #removedResults = false;
  #verdicts: Promise<Judgement> | undefined;

  constructor(shared: Shared, client: SendingClient) {
    this.#shared = shared;
    this.#client = client;
  }

  /**
   * Reads the message to its end and yields it unchanged, except that Authentication-Results that claim to be
   * ours are removed, and results of spam filters where our own filter writes them.
   *
   * @throws any error of the source; Refusal where the header is longer than what is read of it, and the rest
   *   has fields that would be judged or removed
   */
  async *through(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let pending: PendingChecks | undefined;
    let isInHeader = true;
    const sender = sentBy(this.#client.remoteAddress);
    for await (const chunk of source) {
      const waits = enterTurnOfMail(sender);
      if (waits) await waits;
      let body: Buffer | undefined = asBuffer(chunk);
      if (isInHeader) {
        body = this.#reader.write(body);
        isInHeader = body === undefined;
        if (isInHeader && !this.#reader.isFull) continue;
        if (!pending) yield* this.#takeHeader();
        pending ??= startChecks(this.#shared, this.#client, this.#reader.header);
        yield* this.#takeOverflow();
      }
      if (!body || body.length === 0) continue;
      pending?.signatures.writeBody(body);
      yield body;
    }
    if (!pending) {
      const body = this.#reader.end();
      yield* this.#takeHeader();
      pending = startChecks(this.#shared, this.#client, this.#reader.header);
      pending.signatures.writeBody(body);
      if (body.length > 0) yield body;
    }
    this.#verdicts = this.#judge(pending);
    this.#verdicts.catch(() => {});
  }

  /** The results. Waits for DNS, at most `totalMs` after the end of the header. */
  async verdicts(): Promise<Judgement> {
    if (!this.#verdicts) throw new Error('the message was not read to its end');
    return this.#verdicts;
  }

  /** The header as it is stored. */
  *#takeHeader(): Generator<Buffer> {
    const { bytes, header } = this.#reader;
    const { ownService } = this.#shared;
    const claimed = header.fields.filter((field) => isClaimedResult(field, ownService));
    this.#removedResults = claimed.length > 0;
    const { removesSpamFields } = this.#shared.options;
    const isSpamField = ({ name }: HeaderField) => removesSpamFields && SPAM_FIELD.test(name);
    let start = 0;
    for (const field of header.fields) {
      if (!claimed.includes(field) && !isSpamField(field)) continue;
      if (field.start > start) yield bytes.subarray(start, field.start);
      start = field.end;
    }
    if (bytes.length > start) yield bytes.subarray(start);
    const last = header.fields.at(-1);
    if (!header.isWhole && last)
      this.#tail = `${last.name}:${readable(bytes).slice(-SENDER_FIELD_MAX)}`;
  }

  /**
   * After the longest header that is read, fields are not parsed, so none there may say who the message is
   * from: mail readers would show an author who was not judged, or trust results that are not ours.
   */
  *#takeOverflow(): Generator<Buffer> {
    const { skipped } = this.#reader;
    if (skipped.length === 0) return;
    const text = this.#tail + readable(skipped);
    const { removesSpamFields } = this.#shared.options;
    if (SENDER_FIELDS.test(text) || (removesSpamFields && SPAM_FIELD.test(text))) {
      throw new Refusal('sender_rejected', 'its header is too long to tell who it is from');
    }
    // The `-` stands for text before it: the tail does not begin a line.
    this.#tail = `-${text.slice(-SENDER_FIELD_MAX)}`;
    yield skipped;
  }

  async #judge({ lookups, ...pending }: PendingChecks): Promise<Judgement> {
    const { hostname, enforce, random = Math.random } = this.#shared.options;
    const { header, authors, signatures } = pending;
    const [policies, spf, found, clientName] = await Promise.all([
      pending.policies,
      pending.spf,
      signatures.end(),
      pending.clientName,
    ]);
    lookups.throwBugs();
    const removedResults = this.#removedResults;
    const client = this.#client;
    const isLost = lookups.isCrowded;
    const dnsIsDown = this.#shared.guard.isDead();
    const results = {
      client,
      header,
      authors,
      policies,
      spf,
      found,
      removedResults,
      isLost,
      dnsIsDown,
    };
    return { ...judgeSender(results, { hostname, enforce, pctSample: random() }), clientName };
  }
}

/** What every reader shows of a header: some leave out the rest, and then see a field in `From\0:`. */
function readable(bytes: Buffer): string {
  return bytes.toString('latin1').replace(/[^\t\r\n -~]+/g, '');
}

/** Creates the checks: once for the process, since all of them share the resolver. */
export function createSenderChecks(options: SenderChecksOptions): SenderChecks {
  const { restMs, lookupMs } = options.times ?? TIMES;
  const now = options.now ?? (() => performance.now());
  const { dns, onOutage, unanswered = new Unanswered() } = options;
  const guard = new ResolverGuard({ dns, onOutage, unanswered, restMs, probeMs: lookupMs, now });
  const shared = { options, guard, now, ownService: serviceName(options.hostname) };
  return { begin: (client) => new MessageCheck(shared, client) };
}

/** Milliseconds of a turn of the event loop for all mail: two hundred messages at once would hold everybody else for the sum. */
const SHARE_OF_MAIL = [{ name: 'mail', most: 25 }];

/** Who sent a message, without a share of its own here: what others of its network send waits in one line with it. */
export function sentBy(address: string): readonly Party[] {
  const client = clientKey(address);
  const most = Number.POSITIVE_INFINITY;
  return [
    { name: `smtp ${client}`, most },
    { name: `smtp ${networkKey(client)}`, most },
  ];
}

/**
 * Begins a piece of work on mail.
 *
 * @param of who sent it, where that is known, and what share each has
 * @returns what to wait for where one of them, or all mail together, has used its share of this turn
 */
export function enterTurnOfMail(of: readonly Party[]): Promise<void> | undefined {
  return enterTurn([...of, ...SHARE_OF_MAIL]);
}
