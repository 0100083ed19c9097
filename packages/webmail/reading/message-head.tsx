/** Who wrote a message, to whom and when; unfolded, all addresses, and what the checks of its sender found. */
import type { FunctionalComponent } from 'vue';
import type { Address, SenderResults } from '../../sdk/src/api-types.ts';
import type { MailMessage } from '../../sdk/src/mail/client.ts';
import { formatFull } from '../ui/format.ts';
import { judgeSender } from './sender-check.ts';
import { formatAddress, formatName } from './stranger-text.ts';

interface HeadProps {
  readonly message: MailMessage;
  readonly auth: SenderResults | undefined;
  /** All of it, as on paper. */
  readonly isOpen?: boolean;
}

/** Names before "and 12 more". */
const NAMES_MAX = 4;

function summary(people: readonly Address[]): string {
  const names = people.slice(0, NAMES_MAX).map(formatName).join(', ');
  const more = people.length - NAMES_MAX;
  if (people.length === 0) return 'nobody by name';
  return more > 0 ? `${names} and ${more} more` : names;
}

const Line: FunctionalComponent<{ name: string; people: readonly Address[] | undefined }> = ({
  name,
  people,
}) =>
  people?.length ? (
    <div>
      <dt>{name}</dt>
      <dd>{people.map(formatAddress).join(', ')}</dd>
    </div>
  ) : undefined;
Line.props = ['name', 'people'];

export const SenderBadge: FunctionalComponent<{ auth: SenderResults | undefined }> = ({ auth }) => {
  const check = judgeSender(auth);
  return check && check.tone !== 'plain' ? (
    <span class={['verdict', check.tone]} title={check.detail}>
      {check.label}
    </span>
  ) : undefined;
};
SenderBadge.props = ['auth'];

export const MessageHead: FunctionalComponent<HeadProps> = ({ message, auth, isOpen }) => {
  const { envelope, internalDate } = message;
  const isSame = JSON.stringify(envelope.replyTo) === JSON.stringify(envelope.from);
  const people = [...(envelope.to ?? []), ...(envelope.cc ?? [])];
  return (
    <details class="message-head" open={isOpen}>
      <summary>
        to {summary(people)} <SenderBadge auth={auth} />
      </summary>
      <dl>
        <Line name="From" people={envelope.from} />
        <Line name="Reply to" people={isSame ? [] : envelope.replyTo} />
        <Line name="To" people={envelope.to} />
        <Line name="Cc" people={envelope.cc} />
        <Line name="Bcc" people={envelope.bcc} />
        <div>
          <dt>Date</dt>
          <dd>{formatFull(internalDate)}</dd>
        </div>
        {auth && (
          <div>
            <dt>Sender</dt>
            <dd>
              {judgeSender(auth)?.label} ({judgeSender(auth)?.detail})
            </dd>
          </div>
        )}
      </dl>
    </details>
  );
};
MessageHead.props = ['message', 'auth', 'isOpen'];
