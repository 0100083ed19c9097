/** The filters of a list. They stand in the address of the page, so that it can be kept and shared. */
import { defineComponent, reactive, watch } from 'vue';
import { useRoute, useRouter } from 'vue-router';

export interface Filter {
  /** The name in the address and in the API. */
  readonly name: string;
  readonly label: string;
  readonly placeholder?: string;
  readonly type?: 'search' | 'datetime-local' | 'date';
  /** A choice in place of a text: value and label. */
  readonly options?: readonly (readonly [value: string, label: string])[];
}

/** The filters that the address of the page has, by name; empty ones are left out. */
export function useFilters(names: readonly string[]): () => Record<string, string> {
  const route = useRoute();
  return () =>
    Object.fromEntries(
      names.flatMap((name) => {
        const value = route.query[name];
        return typeof value === 'string' && value !== '' ? [[name, value]] : [];
      }),
    );
}

export const Filters = defineComponent(
  (props: { filters: readonly Filter[]; label: string; action?: string }) => {
    const route = useRoute();
    const router = useRouter();
    const values = reactive<Record<string, string>>({});
    watch(
      () => route.query,
      (query) => {
        for (const { name } of props.filters) values[name] = String(query[name] ?? '');
      },
      { immediate: true },
    );
    const apply = () => {
      const query = { ...route.query };
      for (const { name } of props.filters) {
        const value = values[name]?.trim();
        if (value) query[name] = value;
        else delete query[name];
      }
      void router.push({ query });
    };
    const submit = (event: Event) => {
      event.preventDefault();
      apply();
    };
    return () => (
      <search>
        <form class="filters" aria-label={props.label} onSubmit={submit}>
          {props.filters.map((filter) => (
            <FilterField
              key={filter.name}
              filter={filter}
              value={values[filter.name] ?? ''}
              change={(value: string) => {
                values[filter.name] = value;
                // A choice has been made by then; a text has not.
                if (filter.options) apply();
              }}
            />
          ))}
          <button type="submit" class="main">
            {props.action ?? 'Search'}
          </button>
        </form>
      </search>
    );
  },
  { props: ['filters', 'label', 'action'] },
);

interface FieldProps {
  readonly filter: Filter;
  readonly value: string;
  readonly change: (value: string) => void;
}

function FilterField({ filter, value, change }: FieldProps) {
  const { label, options, type, placeholder } = filter;
  const id = `filter-${filter.name}`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {options ? (
        <select
          id={id}
          value={value}
          onChange={(event: Event) => change((event.target as HTMLSelectElement).value)}
        >
          {options.map(([option, text]) => (
            <option key={option} value={option}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          type={type ?? 'search'}
          value={value}
          placeholder={placeholder}
          spellcheck={false}
          autocomplete="off"
          onInput={(event: Event) => change((event.target as HTMLInputElement).value)}
        />
      )}
    </div>
  );
}
