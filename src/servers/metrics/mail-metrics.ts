/**
 * Metrics of incoming mail: SMTP and LMTP clients, answers of DNS, results of the sender checks and the spam filter,
 * and the outcome. Labels have few values: no text of a client becomes one.
 */
import type { SpamOutcome } from '../../mail/delivery/delivery.ts';
import { answerOf, type ErrorCode } from '../../platform/errors/errors.ts';
import type { Instruments } from './instruments.ts';

/** The results of the checks of one message; each is one of few words. */
interface CheckedSender {
  readonly spf: { readonly result: string };
  readonly dkim: readonly { readonly result: string }[];
  readonly dmarc: { readonly result: string };
  readonly arc: { readonly result: string };
}

export function addMailMetrics(instruments: Instruments) {
  const { counter, gauge, histogram } = instruments;
  const recipients = counter(
    'postroom_recipients_total',
    'Recipients of inbound messages, by what became of them.',
    ['result'],
  );
  const checks = counter(
    'postroom_sender_checks_total',
    'Sender checks of messages that came in by SMTP, by check and verdict.',
    ['check', 'verdict'],
  );
  const received = histogram(
    'postroom_receive_duration_seconds',
    'From a message that was read and checked until it was stored, of those that were accepted.',
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 30],
  );
  const off = gauge(
    'postroom_sender_checks_off',
    '1 while DNS does not answer and mail is accepted unchecked, else 0.',
  );
  const relay = gauge(
    'postroom_relay_up',
    'Whether the relay for outgoing mail takes sessions of this node: 1, or 0 while mail waits.',
  );
  // Without a relay it has no value.
  relay.remove();
  return {
    ...addMailTraffic(instruments),
    ...addDnsQuestions(instruments),
    ...addSpamMetrics(instruments),
    /** Counts a recipient of an inbound message by its outcome. */
    countRecipient(result: 'delivered' | 'temporary' | 'permanent') {
      recipients.inc({ result });
    },
    /** Counts the results of the checks of one message. */
    countChecks({ spf, dkim, dmarc, arc }: CheckedSender) {
      checks.inc({ check: 'spf', verdict: spf.result });
      for (const { result } of dkim) checks.inc({ check: 'dkim', verdict: result });
      if (dkim.length === 0) checks.inc({ check: 'dkim', verdict: 'none' });
      checks.inc({ check: 'dmarc', verdict: dmarc.result });
      checks.inc({ check: 'arc', verdict: arc.result });
    },
    /** Counts an accepted message. @param ms from the end of its checks until it was stored */
    countReceived(ms: number) {
      received.observe(ms / 1000);
    },
    /** Sets whether the relay for outgoing mail takes a session; never called where there is none. */
    setRelayUp(isUp: boolean) {
      relay.set(Number(isUp));
    },
    /** Sets whether DNS does not answer, so that mail is accepted unchecked. */
    setChecksOff(isOff: boolean) {
      off.set(Number(isOff));
    },
  };
}

function addDnsQuestions({ counter, histogram }: Instruments) {
  const questions = counter(
    'postroom_dns_questions_total',
    'Questions to DNS, by who asked and by outcome.',
    ['purpose', 'outcome'],
  );
  const latency = histogram(
    'postroom_dns_question_duration_seconds',
    'How long DNS took to answer, all attempts together.',
    [0.005, 0.02, 0.1, 0.5, 1, 2, 5, 15],
    ['purpose'],
  );
  return {
    /** Counts lookups of one user. `ms` is how long the answer took; left out for a `kept` one. */
    dnsQuestions:
      (purpose: 'sender_checks' | 'verification' | 'delivery') =>
      (outcome: 'records' | 'absent' | 'unanswered' | 'kept', ms?: number) => {
        questions.inc({ purpose, outcome });
        if (ms !== undefined) latency.observe({ purpose }, ms / 1000);
      },
  };
}

function addSpamMetrics({ counter, gauge, histogram }: Instruments) {
  const checks = counter(
    'postroom_spam_checks_total',
    'Messages by what the spam filter said of them.',
    ['action'],
  );
  const latency = histogram(
    'postroom_spam_check_duration_seconds',
    'How long the spam filter took to answer.',
    [0.02, 0.1, 0.5, 1, 2, 5],
  );
  const up = gauge(
    'postroom_spam_filter_up',
    'Whether the spam filter answers: 1, or 0 where mail is accepted without it.',
  );
  // Without a filter it has no value.
  up.remove();
  return {
    /** Counts the spam filter's answer to a message. @param ms how long it took; left out where it was not asked */
    countSpamCheck(action: SpamOutcome, ms?: number) {
      checks.inc({ action });
      if (ms !== undefined) latency.observe(ms / 1000);
    },
    /** Sets whether the spam filter answers; never called where there is none. */
    setSpamFilterUp(isUp: boolean) {
      up.set(Number(isUp));
    },
  };
}

const COMMANDS = new Set(
  'HELO EHLO LHLO AUTH MAIL RCPT DATA STARTTLS RSET NOOP HELP VRFY QUIT'.split(' '),
);

function addMailTraffic({ counter, gauge }: Instruments) {
  const open = gauge('postroom_smtp_connections', 'Open connections for mail, by protocol.', [
    'protocol',
  ]);
  const connections = counter(
    'postroom_smtp_connections_total',
    'Connections for mail that were accepted, by protocol.',
    ['protocol'],
  );
  const commands = counter(
    'postroom_smtp_commands_total',
    'Commands of clients, by protocol and verb.',
    ['protocol', 'command'],
  );
  const refusals = counter(
    'postroom_smtp_refusals_total',
    'Recipients, messages and connections that were refused or deferred, by reason.',
    ['protocol', 'result', 'reason'],
  );
  return {
    /** The counters for a listener of the protocol. */
    mailTraffic: (protocol: 'smtp' | 'lmtp' | 'submission') => ({
      connected() {
        connections.inc({ protocol });
        open.inc({ protocol });
      },
      disconnected() {
        open.dec({ protocol });
      },
      /** @param verb as the client sent it, in upper case */
      command(verb: string) {
        commands.inc({ protocol, command: COMMANDS.has(verb) ? verb : 'other' });
      },
      /** A command or a message was refused or deferred, for this reason. */
      refused(code: ErrorCode) {
        const result = answerOf(code).smtp.code < 500 ? 'temporary' : 'permanent';
        refusals.inc({ protocol, result, reason: code });
      },
    }),
  };
}
