import type { Compilable, CompiledQuery } from 'kysely';
import type { Queries } from './engine.ts';
import { runDirectly } from './sqlite-driver.ts';

/**
 * A query that is built and compiled once, and run with other parameters each time: building one
 * takes longer than running it. For the few that every request or message asks.
 */
export class PreparedQuery<Row> {
  readonly #compiled: CompiledQuery<Row>;

  /** @param query the query with any values in the places of its parameters */
  constructor(query: Compilable<Row>) {
    this.#compiled = query.compile();
  }

  /**
   * Runs it.
   *
   * @param parameters in the order in which the query names them
   */
  async all(queries: Queries, parameters: readonly unknown[]): Promise<Row[]> {
    if (parameters.length !== this.#compiled.parameters.length) {
      throw new Error(`a query takes ${this.#compiled.parameters.length} parameters`);
    }
    const query = { ...this.#compiled, parameters };
    const rows = runDirectly(queries, query);
    return rows ? ((await rows) as Row[]) : (await queries.executeQuery<Row>(query)).rows;
  }

  /** The first row, or undefined. */
  async first(queries: Queries, parameters: readonly unknown[]): Promise<Row | undefined> {
    return (await this.all(queries, parameters))[0];
  }
}
