/** What was refused or deferred: the reply, the log, the trace and the counters say the same of it. */
import type { Logger } from 'pino';
import type { Trace } from '../../mail/trace/trace.ts';
import { refusalOfFailure } from '../../platform/database/database.ts';
import { type ErrorCode, Refusal } from '../../platform/errors/errors.ts';
import { clientKey } from '../../platform/net/net.ts';
import type { Reply } from '../../protocols/smtp-client/smtp-client.ts';
import { LOCAL_ERROR, refusalReply } from './commands.ts';

/** The mail that was refused. */
export interface Refused {
  readonly mailId: string;
  readonly from: string;
  readonly to?: readonly string[];
}

export interface RefusalsOptions {
  /** Called with the reason when something was refused or deferred. */
  readonly onRefused?: ((code: ErrorCode) => void) | undefined;
  /** Where operators find what was refused or deferred. */
  readonly trace?: Pick<Trace, 'refused'> | undefined;
}

const NOT_ACCEPTED = 'a message could not be accepted: the client got 451 and will try again';

/** The refusals of one client. */
export class Refusals {
  readonly #client: string;
  readonly #options: RefusalsOptions;
  readonly #logger: Logger;

  /** @param client its address */
  constructor(client: string, options: RefusalsOptions, logger: Logger) {
    this.#client = client;
    this.#options = options;
    this.#logger = logger;
  }

  /** The reply for an error; an unexpected error tells the client nothing. */
  answer(error: unknown, refused: Refused): Reply {
    const { mailId, from, to = [] } = refused;
    const fields = { mailId, from, to };
    const refusal = error instanceof Refusal ? error : refusalOfFailure(error);
    const code = refusal?.code ?? 'internal';
    this.#options.onRefused?.(code);
    if (!refusal) {
      this.#logger.error({ ...fields, err: error }, NOT_ACCEPTED);
      this.#note(LOCAL_ERROR, refused, `${code}: an unexpected error, see the log`);
      return LOCAL_ERROR;
    }
    const said = refusalReply(refusal);
    const detail = refusal.message;
    this.#note(said, refused, `${code}: ${detail}`);
    if (refusal === error || code === 'storage_full') {
      // A full disk has lines of its own in the log, at its begin and its end.
      this.#logger.info({ ...fields, code, detail, ...causeOf(refusal) }, 'refused');
    } else {
      this.#logger.warn({ ...fields, code, err: error }, NOT_ACCEPTED);
    }
    return said;
  }

  /** Writes one trace row for each recipient, with the reply to the client. */
  #note(
    { code, enhanced }: Reply,
    { mailId, from: sender, to = [] }: Refused,
    detail: string,
  ): void {
    const client = this.#client;
    const status = enhanced === undefined ? `${code}` : `${code} ${enhanced}`;
    const event = code < 500 ? 'deferred' : 'refused';
    const refused = { mailId, event, sender, status, detail, client };
    const recipients = to.length > 0 ? to : [undefined];
    for (const recipient of recipients) {
      this.#options.trace?.refused(clientKey(client), { ...refused, recipient });
    }
  }
}

function causeOf({ cause }: Refusal): { readonly cause?: string } {
  return cause instanceof Error ? { cause: cause.message } : {};
}
