/** What a session that failed means for the message. */
import { failure, type SendOutcome } from './outcome.ts';
import { errorOf, isPermanent, readReply } from './read-reply.ts';

export interface SessionResult {
  readonly outcome: SendOutcome;
  /** What failed, or was answered to: our wish to talk with the host, or the message. */
  readonly about: 'connection' | 'message';
  /** Another host may do better: this one cannot have the message and did not refuse it for good. */
  readonly tryNext: boolean;
  /** STARTTLS was offered and failed. */
  readonly tlsFailed: boolean;
}

/** How far a session got. */
export interface Progress {
  readonly host: string;
  readonly stage: 'setup' | 'login' | 'transaction';
  /** STARTTLS was under way. */
  readonly upgrading: boolean;
  /** All of the message was handed over, or nearly. */
  readonly sent: boolean;
  /** Why the session was ended from here. */
  readonly stopped: 'timeout' | 'stop' | undefined;
}

/**
 * Replies about logging in and encryption (RFC 4954 section 6, RFC 3207 section 4): never the message's
 * fault.
 */
const AUTH_REPLIES = new Set([530, 534, 535, 538]);
/** Errors of nodemailer that hold the reply to a command of ours. */
const REPLY_ERRORS = new Set(['EENVELOPE', 'EMESSAGE', 'EAUTH']);

/** @param error from nodemailer */
export function judgeFailure(error: unknown, progress: Progress): SessionResult {
  const { host, stage, sent, stopped } = progress;
  if (stopped) {
    const text = stopped === 'timeout' ? 'the attempt took too long' : 'the attempt was stopped';
    return brokenOff(text, progress, false);
  }
  const { code, response, text } = describe(error);
  const tlsFailed = progress.upgrading || code === 'ETLS';
  const reply = readReply(response);
  // Half a reply, or one that nobody asked for, says nothing about the message.
  if (!reply || (stage !== 'setup' && !REPLY_ERRORS.has(code))) {
    if (code !== 'EENVELOPE' || response !== '')
      return { ...brokenOff(text, progress, !sent), tlsFailed };
    // An address that nodemailer does not write into a command.
    const outcome = failure('permanent', '5.1.3', text, host);
    return { outcome, about: 'message', tryNext: false, tlsFailed };
  }
  const about = stage === 'transaction' ? 'message' : 'connection';
  const isOurs = tlsFailed || stage === 'login' || AUTH_REPLIES.has(reply.status);
  const result = isPermanent(reply.status) && !isOurs ? 'permanent' : 'temporary';
  const outcome = { result, error: errorOf(reply, host) } as const;
  // A host that is not for us at all says nothing about the next one (RFC 7504 section 4).
  return { outcome, about, tryNext: about === 'connection' || result === 'temporary', tlsFailed };
}

function brokenOff(text: string, { host, sent }: Progress, tryNext: boolean): SessionResult {
  const doubt = ', after the whole message was sent: it may have been taken';
  const outcome = failure('temporary', '4.4.2', sent ? `${text}${doubt}` : text, host);
  return { outcome, about: 'connection', tryNext, tlsFailed: false };
}

interface Described {
  readonly code: string;
  /** The reply that nodemailer ties to the error, or `''`. */
  readonly response: string;
  readonly text: string;
}

function describe(error: unknown): Described {
  if (!(error instanceof Error)) return { code: '', response: '', text: String(error) };
  return {
    code: 'code' in error ? String(error.code) : '',
    response: 'response' in error && typeof error.response === 'string' ? error.response : '',
    text: error.message,
  };
}
