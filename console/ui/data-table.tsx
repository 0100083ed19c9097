/**
 * Columns and rows. `ListTable` (list-table.tsx) is the one for lists of the API; this one shows rows that are there.
 *
 * On a phone a row is two lines: the columns of priority 1, the first of which is the link, and below them those
 * of priority 2, joined by dots. Priority 3 and 4 are for the row's own page or drawer. On a desk 4 goes first where the room
 * ends. A cell that is '–' is left out on a phone.
 */
import { ref, type VNode, type VNodeChild } from 'vue';

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => VNodeChild;
  /** When left out, 1 for the first column and 2 for the others. */
  readonly priority?: 1 | 2 | 3 | 4;
  /** Right-aligned digits. */
  readonly isNumber?: boolean;
  /** Takes the width that is left, on one line. */
  readonly isWide?: boolean;
  /** Takes as many lines as it needs. */
  readonly isWrapped?: boolean;
  /** The name by which the server sorts; left out, the column is not sorted by. */
  readonly sort?: string;
}

export interface TableProps<Row> {
  /** What the rows are, for screen readers. */
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
}

const phone = matchMedia('(max-width: 760px)');
export const isPhone = ref(phone.matches);
phone.addEventListener('change', ({ matches }) => {
  isPhone.value = matches;
});

export function classOf<Row>({ isNumber, isWide, isWrapped, priority }: Column<Row>) {
  return { number: isNumber, wide: isWide, wrapped: isWrapped, last: priority === 4 };
}

/** The cells of a row. */
export function cellsOf<Row>(columns: readonly Column<Row>[], row: Row): VNode[] {
  if (isPhone.value) return [<PhoneCell columns={columns} row={row} />];
  return columns.map((column) => (
    <td key={column.head} class={classOf(column)}>
      {column.cell(row)}
    </td>
  ));
}

function PhoneCell<Row>({ columns, row }: { columns: readonly Column<Row>[]; row: Row }) {
  const line = (wanted: number) =>
    columns
      .filter(({ priority }, index) => (priority ?? (index === 0 ? 1 : 2)) === wanted)
      .map((column) => [column, column.cell(row)] as const)
      .filter(([, value]) => value !== '–' && value != null)
      .map(([{ head, isWide }, value]) => (
        <span key={head} class={{ long: isWide }}>
          {value}
        </span>
      ));
  const second = line(2);
  return (
    <td class="lines">
      <div class="first">{line(1)}</div>
      {second.length > 0 && <div class="second">{second}</div>}
    </td>
  );
}

export function DataTable<Row>({ caption, columns, rows, keyOf }: TableProps<Row>): VNode {
  return (
    <table class={['data', { phone: isPhone.value }]}>
      <caption class="unseen">{caption}</caption>
      {!isPhone.value && (
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.head} scope="col" class={classOf(column)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
      )}
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>{cellsOf(columns, row)}</tr>
        ))}
      </tbody>
    </table>
  );
}

export const Loading = () => (
  <p class="loading" role="status">
    Loading…
  </p>
);
