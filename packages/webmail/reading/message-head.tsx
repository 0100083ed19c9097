/** Who wrote a message, to whom and when; unfolded, all addresses, and what the checks of its sender found. */
import type { Address, SenderResults } from '../../sdk/src/api-types.ts';
import type { MailMessage } from '../../sdk/src/mail/client.ts';
import { formatFull } from '../ui/format.ts';
import { judgeSender } from './sender-check.ts';
import { formatAddress, nameOf } from './stranger-text.ts';

interface HeadProps {
  readonly message: MailMessage;
  readonly auth: SenderResults | undefined;
  /** All of it, as on paper. */
  readonly isOpen?: boolean;
}

/** Names before "and 12 more". */
const NAMES_MAX = 4;

function summary(people: readonly Address[]): string {
  const names = people.slice(0, NAMES_MAX).map(nameOf).join(', ');
  const more = people.length - NAMES_MAX;
  if (people.length === 0) return 'nobody by name';
  return more > 0 ? `${names} and ${more} more` : names;
}

export const MessageHead = ({ message, auth, isOpen }: HeadProps) => {
  const { from, replyTo, to = [], cc = [], bcc } = message.envelope;
  const isSame = JSON.stringify(replyTo) === JSON.stringify(from);
  const list = (people: readonly Address[] | undefined) => people?.map(formatAddress).join(', ');
  const check = judgeSender(auth);
  const lines = {
    From: list(from),
    'Reply to': isSame ? '' : list(replyTo),
    To: list(to),
    Cc: list(cc),
    Bcc: list(bcc),
    Date: formatFull(message.internalDate),
    Sender: check && `${check.label} (${check.detail})`,
  };
  return (
    <details class="message-head soft" open={isOpen}>
      <summary>
        to {summary([...to, ...cc])}{' '}
        {check && check.tone !== 'plain' && (
          <span class={['pill', check.tone]} title={check.detail}>
            {check.label}
          </span>
        )}
      </summary>
      <dl>
        {Object.entries(lines).map(
          ([name, value]) =>
            value && (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ),
        )}
      </dl>
    </details>
  );
};
