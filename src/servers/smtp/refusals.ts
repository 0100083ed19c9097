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
  /** Address of the client that brought it. */
  readonly client: string;
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

/** The reply for an error; an unexpected error tells the client nothing. */
export function answerRefused(
  error: unknown,
  refused: Refused,
  { onRefused, trace }: RefusalsOptions,
  logger: Logger,
): Reply {
  const { mailId, from, to = [] } = refused;
  const fields = { mailId, from, to };
  const refusal = error instanceof Refusal ? error : refusalOfFailure(error);
  const code = refusal?.code ?? 'internal';
  onRefused?.(code);
  if (!refusal) {
    logger.error({ ...fields, err: error }, NOT_ACCEPTED);
    note(trace, LOCAL_ERROR, refused, `${code}: an unexpected error, see the log`);
    return LOCAL_ERROR;
  }
  const said = refusalReply(refusal);
  const detail = refusal.message;
  note(trace, said, refused, `${code}: ${detail}`);
  if (refusal === error || code === 'storage_full') {
    // A full disk has lines of its own in the log, at its begin and its end.
    logger.info({ ...fields, code, detail, ...causeOf(refusal) }, 'refused');
  } else {
    logger.warn({ ...fields, code, err: error }, NOT_ACCEPTED);
  }
  return said;
}

/** Writes one trace row for each recipient, with the reply to the client. */
function note(
  trace: RefusalsOptions['trace'],
  { code, enhanced }: Reply,
  { mailId, client, from: sender, to = [] }: Refused,
  detail: string,
): void {
  const status = enhanced === undefined ? `${code}` : `${code} ${enhanced}`;
  const event = code < 500 ? 'deferred' : 'refused';
  const refused = { mailId, event, sender, status, detail, client };
  const recipients = to.length > 0 ? to : [undefined];
  for (const recipient of recipients) trace?.refused(clientKey(client), { ...refused, recipient });
}

function causeOf({ cause }: Refusal): { readonly cause?: string } {
  return cause instanceof Error ? { cause: cause.message } : {};
}
