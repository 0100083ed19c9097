/** What was refused or deferred: the reply, the log, the trace and the counters say the same of it. */
import type { Logger } from 'pino';
import type { Trace } from '../../mail/trace/trace.ts';
import { refusalOfFailure } from '../../platform/database/database.ts';
import { type ErrorCode, Refusal } from '../../platform/errors/errors.ts';
import { clientKey } from '../../platform/net/net.ts';
import { Outage } from '../../platform/time/time.ts';
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
  /** Of the database, as far as mail was deferred for it. */
  readonly outage: Outage<FailedMail>;
}

interface FailedMail {
  readonly code: ErrorCode;
  readonly err: unknown;
}

/** Mail that comes while the database is away is told once, and not once for each message. */
export function deferringOutage(logger: Logger): Outage<FailedMail> {
  return new Outage(
    (failed) => logger.warn(failed, 'mail is deferred: clients get 451 and will try again'),
    (seconds, failures) => logger.warn({ seconds, failures }, 'mail is accepted again'),
  );
}

const NOT_ACCEPTED = 'a message could not be accepted: the client got 451 and will try again';

/** The reply for an error; an unexpected error tells the client nothing. */
export function answerRefused(
  error: unknown,
  refused: Refused,
  { onRefused, trace, outage }: RefusalsOptions,
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
  // A full disk has lines of its own in the log, at its begin and its end.
  if (refusal !== error && code !== 'storage_full') outage.failed({ code, err: error });
  logger.info({ ...fields, code, detail, ...causeOf(refusal) }, 'refused');
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
