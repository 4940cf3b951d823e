// A client of a drill that writes with the official JavaScript driver, which retries as it does for applications.
//
//     node client.mjs bolt|neo4j HOST PORT RUN
//
// Reads one number per line and prints what the driver said of it: acknowledged, failed or unknown.

import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

// Installed where this is run, not found by walking up from this file.
const require = createRequire(process.cwd() + '/')
const neo4j = require('neo4j-driver')
const [scheme, host, port, run] = process.argv.slice(2)
const driver = neo4j.driver(`${scheme}://${host}:${port}`, undefined, {
  maxTransactionRetryTime: 15000,
  connectionAcquisitionTimeout: 15000,
  telemetryDisabled: true
})

async function write (id) {
  const session = driver.session()
  try {
    await session.executeWrite((tx) =>
      tx.run('CREATE (:Drill {run: $run, id: $id})', { run: neo4j.int(run), id: neo4j.int(id) })
    )
    return 'acknowledged'
  } catch (error) {
    return error.message.includes('Nothing of this was committed') ? 'failed' : 'unknown'
  } finally {
    await session.close()
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write((await write(line.trim())) + '\n')
}
await driver.close()
