/**
 * Checks who sent a message, in the pass in which it is stored: SPF, DKIM, DMARC and ARC.
 *
 * Owns nothing in storage. Lookups start when the header is there and go on while the body comes in;
 * a machine without DNS takes mail at full speed, unchecked.
 */
import { Buffer } from 'node:buffer';
import { type Authors, findAuthors } from '../../message/message.ts';
import { asBuffer, type CutHeader, FieldCutter } from './cut-fields.ts';
import { discoverPolicy, type PolicyDiscovery } from './dmarc-record.ts';
import { isAligned } from './evaluate-dmarc.ts';
import { evaluateSpf, type SendingClient, spfDomain } from './evaluate-spf.ts';
import { type Header, HeaderCollector } from './header.ts';
import { judgeSender } from './judge-sender.ts';
import type { Lookup } from './lookup.ts';
import { MessageLookups } from './message-lookups.ts';
import { ResultsRemoval, serviceName } from './remove-claimed-results.ts';
import { ResolverGuard } from './resolver-guard.ts';
import { KnownKeys } from './signing-keys.ts';
import type { Judgement, SpfVerdict } from './verdicts.ts';
import { noSignatures, SignatureCheck, type SignatureFindings } from './verify-signatures.ts';

export type { SendingClient } from './evaluate-spf.ts';
export type { Lookup, LookupAnswer, LookupType } from './lookup.ts';
export {
  type ArcResult,
  type DkimResult,
  type DmarcPolicy,
  type DmarcResult,
  type Judgement,
  RESULTS_MAX,
  type SenderAction,
  type SpfResult,
  type Verdicts,
} from './verdicts.ts';

export interface SenderChecksOptions {
  readonly lookup: Lookup;
  /** Our name (MAIL_HOSTNAME): the authserv-id of what we found. */
  readonly hostname: string;
  /** Whether mail that fails a policy of `reject` is refused; else it goes to Junk. */
  readonly enforce: boolean;
  /** Milliseconds: for one lookup, for all of a message, and that a dead resolver is left alone. */
  readonly times?: { readonly lookupMs: number; readonly totalMs: number; readonly restMs: number };
  /** Milliseconds on a clock that never goes back. */
  readonly now?: () => number;
  /** From 0 to under 1: who is in the part of the mail that a policy is for (pct=). */
  readonly random?: () => number;
}

export interface SenderChecks {
  /** Starts the check of one message. */
  begin(client: SendingClient): SenderCheck;
}

/** The check of one message: first all of it, in whichever form, then {@link verdicts}. */
export interface SenderCheck {
  /**
   * Takes the next bytes. What it answers is the message so far, unchanged but for
   * Authentication-Results that claim to be ours; in parts where they lie.
   */
  take(chunk: Uint8Array): readonly Uint8Array[];
  /** Ends the message; answers its last bytes. */
  end(): readonly Uint8Array[];
  /**
   * Does both for a stream.
   *
   * @throws whatever the source throws
   */
  through(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array>;
  /** What was found. Waits for DNS, at most `totalMs` after the end of the header. */
  verdicts(): Promise<Judgement>;
}

const LF = 0x0a;
const TIMES = { lookupMs: 2_000, totalMs: 5_000, restMs: 30_000 };

/** What the checks of all messages share. */
interface Shared {
  readonly options: SenderChecksOptions;
  readonly guard: ResolverGuard;
  readonly knownKeys: KnownKeys;
  readonly now: () => number;
  /** Our name, to tell Authentication-Results that claim to be ours. */
  readonly ownService: string;
}

/** All that is under way once the header was read. */
interface Inquiry {
  readonly header: Header;
  readonly authors: Authors;
  readonly lookups: MessageLookups;
  readonly policies: Promise<PolicyDiscovery[]>;
  readonly spf: Promise<SpfVerdict>;
  /** Under way, or what there is to say without. */
  readonly signatures: SignatureCheck | SignatureFindings;
}

function startInquiry(
  { options, guard, knownKeys, now }: Shared,
  client: SendingClient,
  header: Header,
): Inquiry {
  const found = findAuthors(header.from.map((value) => value.toString('latin1')));
  const authors = { ...found, isWhole: found.isWhole && header.isFromWhole };
  const lookups = new MessageLookups(guard, options.times ?? TIMES, now);
  const isBlind = guard.isResting();
  const ask = (name: string) => lookups.ask(name, 'TXT', 'deciding');
  const policies = Promise.all(authors.domains.map((domain) => discoverPolicy(domain, ask)));
  const signatures =
    noSignatures(header) ??
    new SignatureCheck({ header, authors: authors.domains, lookups, knownKeys, isBlind });
  const sender = spfDomain(client);
  const isDeciding = authors.domains.some((author) => isAligned(sender, author, false));
  const weight = isDeciding ? 'deciding' : 'other';
  const spf = evaluateSpf({ client, lookups, hostname: options.hostname, weight, isBlind });
  // A message that breaks off is never asked for its verdicts.
  for (const promise of [policies, spf]) promise.catch(() => {});
  return { header, authors, lookups, policies, spf, signatures };
}

class MessageCheck implements SenderCheck {
  readonly #shared: Shared;
  readonly #client: SendingClient;
  readonly #cutter = new FieldCutter();
  readonly #collector = new HeaderCollector();
  readonly #removal: ResultsRemoval;
  #inquiry: Inquiry | undefined;
  #verdicts: Promise<Judgement> | undefined;

  constructor(shared: Shared, client: SendingClient) {
    this.#shared = shared;
    this.#client = client;
    this.#removal = new ResultsRemoval(shared.ownService);
  }

  take(chunk: Uint8Array): readonly Uint8Array[] {
    const bytes = asBuffer(chunk);
    if (this.#inquiry) {
      this.#takeBody(this.#inquiry, bytes);
      return [bytes];
    }
    const cut = this.#cutter.take(bytes);
    const left = this.#takeHeader(cut);
    if (cut.rest) {
      this.#inquiry = this.#startInquiry();
      this.#takeBody(this.#inquiry, cut.rest.subarray(cut.rest.indexOf(LF) + 1));
    }
    return left;
  }

  end(): readonly Uint8Array[] {
    const left = this.#inquiry ? [] : this.#takeHeader(this.#cutter.end());
    this.#inquiry ??= this.#startInquiry();
    this.#verdicts = this.#judge(this.#inquiry);
    this.#verdicts.catch(() => {});
    return left;
  }

  async *through(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) yield* this.take(chunk);
    yield* this.end();
  }

  async verdicts(): Promise<Judgement> {
    if (!this.#verdicts) throw new Error('the message was not read to its end');
    return this.#verdicts;
  }

  /** Looks at what was cut; answers what is left of it, in one part where nothing is removed. */
  #takeHeader({ pieces, bytes, rest }: CutHeader): Buffer[] {
    const kept: Buffer[] = [];
    for (const piece of pieces) {
      // Signatures are those of the message as it came, what is removed from it included.
      this.#collector.add(piece);
      if (this.#removal.keeps(piece)) kept.push(piece.bytes);
    }
    const left =
      kept.length === pieces.length ? [bytes] : [Buffer.concat(kept), ...(rest ? [rest] : [])];
    return left.filter(({ length }) => length > 0);
  }

  #takeBody({ signatures }: Inquiry, chunk: Buffer): void {
    if (signatures instanceof SignatureCheck) signatures.writeBody(chunk);
  }

  #startInquiry(): Inquiry {
    return startInquiry(this.#shared, this.#client, this.#collector.end());
  }

  async #judge({ lookups, ...inquiry }: Inquiry): Promise<Judgement> {
    const { hostname, enforce, random = Math.random } = this.#shared.options;
    const { header, authors, signatures } = inquiry;
    const [policies, spf, found] = await Promise.all([
      inquiry.policies,
      inquiry.spf,
      signatures instanceof SignatureCheck ? signatures.end() : signatures,
    ]);
    lookups.throwBugs();
    const removedResults = this.#removal.removed;
    const client = this.#client;
    const evidence = { client, header, authors, policies, spf, found, removedResults };
    return judgeSender(evidence, { hostname, enforce, draw: random() });
  }
}

/** Sets up the checks; one for the whole process, since all of them share the resolver. */
export function createSenderChecks(options: SenderChecksOptions): SenderChecks {
  const { restMs, lookupMs } = options.times ?? TIMES;
  const now = options.now ?? (() => performance.now());
  const guard = new ResolverGuard({ lookup: options.lookup, restMs, probeMs: lookupMs, now });
  const ownService = serviceName(options.hostname);
  const shared: Shared = { options, guard, knownKeys: new KnownKeys(), now, ownService };
  return { begin: (client) => new MessageCheck(shared, client) };
}
