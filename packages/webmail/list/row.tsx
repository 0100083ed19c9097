// biome-ignore-all lint/a11y/useSemanticElements: rows of a list that is drawn in part lie where they belong, which those of a table cannot
// biome-ignore-all lint/a11y/useFocusableInteractive: the grid has the focus, and names its active row
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the grid has the keys
/** One row of the list. */
import { defineComponent } from 'vue';
import { commands } from '../state/commands.ts';
import { route } from '../state/route.ts';
import { isOpen } from '../thread/opened.ts';
import { Avatar } from '../ui/avatar.tsx';
import { formatFull, formatWhen, nameOf, namesOf } from '../ui/format.ts';
import { Icon } from '../ui/icon.tsx';
import type { Row } from './rows.ts';
import { selection } from './selection.ts';
import { list } from './source.ts';

interface RowProps {
  readonly row: Row;
  readonly index: number;
  readonly isActive: boolean;
  readonly isChosen: boolean;
  readonly open: () => void;
}

/** As the id of an element: every character of the key that an id may not have is a number. */
export function rowId({ key, isChild }: Row): string {
  const plain = key.replace(/[^\w/-]/g, (character) => `.${character.codePointAt(0)}.`);
  return `${isChild ? 'message' : 'row'}-${plain}`;
}

/** Who it is from; in Sent and Drafts, to whom. */
function peopleOf({ messages, latest }: Row): string {
  const { from, to } = latest.envelope;
  const isMine = /^(?:sent|drafts)\b/i.test(latest.mailbox);
  if (isMine) return `To: ${namesOf(to)}`;
  if (messages.length === 1) return namesOf(from);
  const names = messages.flatMap(({ envelope }) => (envelope.from ?? []).slice(0, 1).map(nameOf));
  return [...new Set(names)].join(', ') || 'nobody';
}

export const ListRow = defineComponent(
  (props: RowProps) => () => {
    const { row, index, isActive, isChosen, open } = props;
    const { latest, messages } = row;
    const count = messages.length;
    const isUnfolded = list.unfolded.has(row.key);
    return (
      <div
        id={rowId(row)}
        class={[
          'row',
          {
            unread: row.isUnread,
            active: isActive,
            chosen: isChosen,
            open: isOpen(row),
            child: row.isChild,
          },
        ]}
        role="row"
        aria-rowindex={index + 1}
        aria-level={row.isChild ? 2 : 1}
        aria-selected={isChosen}
        aria-expanded={count > 1 ? isUnfolded : undefined}
        style={{ transform: `translateY(${index}00%)` }}
        onClick={(event) => pressed(event, row, open)}
      >
        <span role="gridcell" class="mark">
          <Avatar person={latest.envelope.from?.[0]} />
          <span
            class="box"
            role="checkbox"
            tabindex="-1"
            aria-checked={isChosen}
            aria-label={`Choose ${latest.envelope.subject || 'the message'}`}
          >
            <Icon name="check" />
          </span>
        </span>
        <span role="gridcell" class="words">
          <span class="line">
            {row.isUnread && <span class="unseen">Unread. </span>}
            <span class="who">{peopleOf(row)}</span>
            <Signs row={row} />
            <time datetime={latest.internalDate} title={formatFull(latest.internalDate)}>
              {formatWhen(latest.internalDate)}
            </time>
          </span>
          <span class="subject">
            {latest.envelope.subject || '(no subject)'}
            {count > 1 && !row.isChild && <Count amount={count} />}
          </span>
          <span class="preview">
            {route.value.query && <span class="where">{latest.mailbox}</span>}
            {latest.preview}
          </span>
        </span>
        <span role="gridcell" class="star-cell">
          <button
            type="button"
            class={['tool', 'star', { on: row.isStarred }]}
            tabindex="-1"
            aria-label={row.isStarred ? 'Remove the star' : 'Star'}
          >
            <Icon name="star" filled={row.isStarred} />
          </button>
        </span>
      </div>
    );
  },
  { props: ['row', 'index', 'isActive', 'isChosen', 'open'] },
);

function Count({ amount }: { amount: number }) {
  return (
    <button type="button" class="count" tabindex="-1" aria-label={`${amount} messages, unfold`}>
      {amount}
    </button>
  );
}

function Signs({ row }: { row: Row }) {
  const isAnswered = row.latest.flags.includes('\\Answered');
  return (
    <span class="signs">
      {row.isPending && <span class="pending">Pending</span>}
      {isAnswered && <Sign name="reply" says="Answered" />}
      {row.hasAttachment && <Sign name="attach" says="Has attachments" />}
    </span>
  );
}

function Sign({ name, says }: { name: 'reply' | 'attach'; says: string }) {
  return (
    <span title={says}>
      <Icon name={name} />
      <span class="unseen">{says}</span>
    </span>
  );
}

/** A press opens the row, but on its box, star or number. */
function pressed(event: MouseEvent, row: Row, open: () => void): void {
  const pressedOn = event.target as Element;
  if (pressedOn.closest('.star')) commands.starRow(row);
  else if (pressedOn.closest('.count')) list.toggle(row.key);
  else if (pressedOn.closest('.mark') || event.ctrlKey || event.metaKey || event.shiftKey) {
    event.preventDefault();
    if (event.shiftKey) selection.extend(row.key);
    else selection.toggle(row.key);
  } else open();
}
