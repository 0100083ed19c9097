/** One message of a conversation: a line, or the whole of it. */
import type { FunctionalComponent } from 'vue';
import type { MailMessage } from '../../sdk/src/mail/client.ts';
import { FLAGGED, isUnread } from '../list/rows.ts';
import { MessageBody } from '../reading/message-body.tsx';
import { star } from '../state/actions.ts';
import { type Account, write } from '../state/parts.ts';
import { Avatar } from '../ui/avatar.tsx';
import { formatFull, formatWhen, nameOf } from '../ui/format.ts';
import { Icon, Tool } from '../ui/icon.tsx';

interface CardProps {
  readonly account: Account;
  readonly message: MailMessage;
  readonly isOpen: boolean;
  readonly toggle: () => void;
}

export const Card: FunctionalComponent<CardProps> = ({ account, message, isOpen, toggle }) => {
  const { envelope, internalDate, flags } = message;
  const [from] = envelope.from ?? [];
  const isDraft = flags.includes('\\Draft');
  return (
    <section class={['message', { folded: !isOpen, unread: isUnread(message) }]}>
      <header>
        <button type="button" class="who" aria-expanded={isOpen} onClick={toggle}>
          <Avatar person={from} />
          <span class="names">
            <b>{from ? nameOf(from) : 'nobody'}</b>
            {isOpen ? (
              <span class="soft">{from?.address}</span>
            ) : (
              <span class="soft preview">{message.preview}</span>
            )}
          </span>
          {isDraft && <span class="note">Draft</span>}
          {message.hasAttachment && !isOpen && <Icon name="attach" />}
          <time datetime={internalDate} title={formatFull(internalDate)}>
            {formatWhen(internalDate)}
          </time>
        </button>
        {isOpen && <CardTools account={account} message={message} />}
      </header>
      {isOpen && <MessageBody account={account} message={message} />}
    </section>
  );
};
Card.props = ['account', 'message', 'isOpen', 'toggle'];

const CardTools: FunctionalComponent<Pick<CardProps, 'account' | 'message'>> = (props) => {
  const { account, message } = props;
  if (message.flags.includes('\\Draft')) {
    return (
      <Tool
        icon="edit"
        label="Go on writing"
        press={() => write({ kind: 'draft', account, about: message })}
      />
    );
  }
  const isStarred = message.flags.includes(FLAGGED);
  return (
    <>
      <Tool
        icon="star"
        label="Star"
        pressed={isStarred}
        press={() => void star({ messages: [message] }, !isStarred)}
      />
      <Tool
        icon="reply"
        label="Reply to this message"
        press={() => write({ kind: 'reply', account, about: message })}
      />
    </>
  );
};
CardTools.props = ['account', 'message'];
