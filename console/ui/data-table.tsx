/** A table, which is a list of cards where the screen is narrow. */
import type { VNode, VNodeChild } from 'vue';
import type { LoadedList } from '../api/load.ts';
import { Empty, Failure } from './basics.tsx';

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => VNodeChild;
  /** Right-aligned digits. */
  readonly isNumber?: boolean;
  /** Takes the width that is left. */
  readonly isWide?: boolean;
}

export interface TableProps<Row> {
  /** What the rows are, for screen readers. */
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
}

export function DataTable<Row>({ caption, columns, rows, keyOf }: TableProps<Row>): VNode {
  return (
    <table class="data">
      <caption class="unseen">{caption}</caption>
      <thead>
        <tr>
          {columns.map(({ head, isNumber, isWide }) => (
            <th key={head} scope="col" class={{ number: isNumber, wide: isWide }}>
              {head === 'Actions' ? <span class="unseen">{head}</span> : head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map(({ head, cell, isNumber }) => (
              <td key={head} data-head={head} class={{ number: isNumber }}>
                <div>{cell(row)}</div>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface ListProps<Row> extends Omit<TableProps<Row>, 'rows'> {
  readonly list: LoadedList<Row>;
  /** What is said where there are no rows: a title and what to do. */
  readonly empty: readonly [title: string, hint: string];
}

/** A list of the API in all its states: loading, failed, empty, shown page by page. */
export function ListTable<Row>({ list, empty, ...table }: ListProps<Row>): VNode {
  const rows = list.data.value;
  return (
    <div class="list" aria-busy={list.isLoading.value}>
      <Failure error={list.error.value} retry={() => void list.reload()} />
      {rows === undefined && !list.error.value && <Loading />}
      {rows?.length === 0 && !list.hasMore.value && <Empty title={empty[0]}>{empty[1]}</Empty>}
      {rows && rows.length > 0 && <DataTable {...table} rows={rows} />}
      {list.hasMore.value && (
        <button type="button" class="plain more" onClick={() => void list.more()}>
          Show more
        </button>
      )}
    </div>
  );
}

export const Loading = () => (
  <p class="loading" role="status">
    Loading…
  </p>
);
