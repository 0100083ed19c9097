/** One message of a conversation: a line, or the whole of it. */
import type { MailMessage, SentMail } from '../../sdk/src/mail/client.ts';
import { isStarred, isUnread } from '../list/rows.ts';
import { MessageBody } from '../reading/message-body.tsx';
import { nameOf } from '../reading/stranger-text.ts';
import { waitsAs } from '../state/accounts.ts';
import { star } from '../state/actions.ts';
import { type Account, write as startWriting } from '../state/parts.ts';
import { Avatar } from '../ui/avatar.tsx';
import { Tool } from '../ui/button.tsx';
import { formatSoon } from '../ui/format.ts';
import { Icon } from '../ui/icon.tsx';
import { sayFailure } from '../ui/toasts.tsx';
import { When } from '../ui/when.tsx';

interface CardProps {
  readonly account: Account;
  readonly message: MailMessage;
  readonly isOpen: boolean;
  readonly toggle: () => void;
}

export const Card = ({ account, message, isOpen, toggle }: CardProps) => {
  const [from] = message.envelope.from ?? [];
  const isDraft = message.flags.includes('\\Draft');
  const waiting = waitsAs(message);
  const isOn = isStarred(message);
  const write = (kind: 'draft' | 'reply') => startWriting({ kind, account, about: message });
  return (
    <section class={['message', { unread: isUnread(message) }]}>
      <header class="bar">
        <button type="button" class="who grow" aria-expanded={isOpen} onClick={toggle}>
          <Avatar person={from} />
          <span class="names grow">
            <b class="cut" dir="auto">
              {from ? nameOf(from) : 'nobody'}
            </b>
            <span class="soft cut" dir="auto">
              {waiting && <span class="pill wait">Goes out {formatSoon(waiting.sendAt)}</span>}{' '}
              {isOpen ? from?.address : message.preview}
            </span>
          </span>
          {isDraft && !waiting && <span class="pill wait">Draft</span>}
          {message.hasAttachment && !isOpen && <Icon name="attach" />}
          {!waiting && <When at={message.internalDate} />}
        </button>
        {isOpen && waiting && (
          <Tool
            icon="edit"
            label="Cancel sending, and edit"
            press={() => void takeBack(account, waiting)}
          />
        )}
        {isOpen && isDraft && !waiting && (
          <Tool icon="edit" label="Go on writing" press={() => write('draft')} />
        )}
        {isOpen && !isDraft && !waiting && (
          <>
            <Tool
              icon="star"
              label="Star"
              pressed={isOn}
              press={() => void star({ messages: [message] }, !isOn)}
            />
            <Tool icon="reply" label="Reply to this message" press={() => write('reply')} />
          </>
        )}
      </header>
      {isOpen && <MessageBody account={account} message={message} />}
    </section>
  );
};

/** It is not sent, and its draft goes on. */
async function takeBack(account: Account, { operation }: SentMail): Promise<void> {
  try {
    const { draft } = (await operation.cancel()) ?? {};
    if (draft) startWriting({ kind: 'draft', account, about: draft });
  } catch (error) {
    sayFailure('It was not taken back', error);
  }
}
