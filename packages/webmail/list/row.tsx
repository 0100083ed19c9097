// biome-ignore-all lint/a11y/useSemanticElements: rows of a list that is drawn in part lie where they belong, which those of a table cannot
// biome-ignore-all lint/a11y/useFocusableInteractive: the grid has the focus, and names its active row
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the grid has the keys
/** One row of the list. */
import { nameOf, namesOf, subjectOf } from '../reading/stranger-text.ts';
import { specialUseOf, titleOfName, waitsAs } from '../state/accounts.ts';
import { commands } from '../state/commands.ts';
import { route } from '../state/route.ts';
import { isOpen } from '../thread/opened.ts';
import { Avatar } from '../ui/avatar.tsx';
import { formatSoon } from '../ui/format.ts';
import { Icon } from '../ui/icon.tsx';
import { When } from '../ui/when.tsx';
import { drag } from './drag.ts';
import type { Row } from './rows.ts';
import { selection } from './selection.ts';
import { list } from './source.ts';
import { followFinger, keepFromBrowser, swiped } from './swipe.ts';

/** A finger that stays on a row would drag it. */
const hasPointer = matchMedia('(hover: hover)');

interface RowProps {
  readonly row: Row;
  readonly index: number;
  readonly isActive: boolean;
  readonly isChosen: boolean;
}

/** As the id of an element: every character of the key that an id may not have is a number. */
export function rowId({ key, isChild }: Row): string {
  const plain = key.replace(/[^\w/-]/g, (character) => `.${character.codePointAt(0)}.`);
  return `${isChild ? 'message' : 'row'}-${plain}`;
}

/** Whether it is mail of the account: it goes by those that it is for. */
function isOwn({ latest }: Row): boolean {
  return ['\\Sent', '\\Drafts'].includes(specialUseOf(latest.mailbox));
}

/** Who it is from, or to whom. */
function peopleOf(row: Row): string {
  const { messages, latest } = row;
  if (isOwn(row)) return `To: ${namesOf(latest.envelope.to)}`;
  if (messages.length === 1) return namesOf(latest.envelope.from);
  const names = messages.flatMap(({ envelope }) => (envelope.from ?? []).slice(0, 1).map(nameOf));
  return [...new Set(names)].join(', ') || 'nobody';
}

export const ListRow = ({ row, index, isActive, isChosen }: RowProps) => {
  const { latest, messages, isUnread, isStarred, isChild } = row;
  const { envelope, internalDate } = latest;
  const count = messages.length;
  const waiting = waitsAs(latest);
  const by = swiped.value?.key === row.key ? swiped.value.by : 0;
  const looks = {
    swiped: by !== 0,
    unread: isUnread,
    active: isActive,
    chosen: isChosen,
    open: isOpen(row),
    child: isChild,
  };
  return (
    <div
      id={rowId(row)}
      class={['row ruled', looks]}
      role="row"
      aria-rowindex={index + 1}
      aria-level={isChild ? 2 : 1}
      aria-selected={isChosen}
      aria-expanded={count > 1 ? list.unfolded.has(row.key) : undefined}
      style={{ transform: `translate(${by}px, ${index}00%)` }}
      draggable={hasPointer.matches}
      onDragstart={(event) => drag(event, row)}
      onClick={(event) => pressed(event, row, index)}
      onPointerdown={(event) => followFinger(event, row)}
      onTouchmove={keepFromBrowser}
    >
      {by !== 0 && (
        <span class={['swipe', by > 0 ? 'archives' : 'deletes']} aria-hidden="true">
          <Icon name={by > 0 ? 'archive' : 'delete'} />
        </span>
      )}
      <span role="gridcell" class="mark">
        <Avatar person={(isOwn(row) ? envelope.to : envelope.from)?.[0]} />
        <span
          class="box"
          role="checkbox"
          tabindex="-1"
          aria-checked={isChosen}
          aria-label={`Choose ${subjectOf(envelope)}`}
        >
          <Icon name="check" />
        </span>
      </span>
      <span role="gridcell" class="words">
        <span class="line">
          {isUnread && <span class="unseen">Unread. </span>}
          <span class="who cut grow" dir="auto">
            {peopleOf(row)}
          </span>
          {row.isPending && <span class="pill wait">Pending</span>}
          {latest.flags.includes('\\Answered') && <Sign name="reply" says="Answered" />}
          {row.hasAttachment && <Sign name="attach" says="Has attachments" />}
          <When at={internalDate} />
        </span>
        <span class="line">
          <span class="subject cut grow" dir="auto">
            {subjectOf(envelope)}
          </span>
          {count > 1 && !isChild && (
            <button
              type="button"
              class="count pill"
              tabindex="-1"
              aria-label={`${count} messages, unfold`}
            >
              {count}
            </button>
          )}
        </span>
        <span class="cut small" dir="auto">
          {waiting && <span class="pill wait">Goes out {formatSoon(waiting.sendAt)}</span>}{' '}
          {route.value.query && <span class="pill">{titleOfName(latest.mailbox)}</span>}{' '}
          {latest.preview}
        </span>
      </span>
      <span role="gridcell" class="star-cell">
        <button
          type="button"
          class={['tool', 'star', { on: isStarred }]}
          tabindex="-1"
          aria-label={isStarred ? 'Remove the star' : 'Star'}
        >
          <Icon name="star" filled={isStarred} />
        </button>
      </span>
    </div>
  );
};

function Sign({ name, says }: { name: 'reply' | 'attach'; says: string }) {
  return (
    <span class="sign" title={says}>
      <Icon name={name} />
      <span class="unseen">{says}</span>
    </span>
  );
}

/** A press opens the row, but on its box, star or number. */
function pressed(event: MouseEvent, row: Row, index: number): void {
  const pressedOn = event.target as Element;
  if (pressedOn.closest('.star')) commands.starRow(row);
  else if (pressedOn.closest('.count')) list.toggle(row.key);
  else if (pressedOn.closest('.mark') || event.ctrlKey || event.metaKey || event.shiftKey) {
    event.preventDefault();
    if (event.shiftKey) selection.extend(row.key);
    else selection.toggle(row.key);
  } else {
    selection.activate(index);
    commands.open();
  }
}
