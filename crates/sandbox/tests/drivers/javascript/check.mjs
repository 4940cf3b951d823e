// What an application sees through the official JavaScript driver.
//
//     node check.mjs MAIN_HOST MAIN_PORT REPLICA_HOST REPLICA_PORT USER PASSWORD

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

// Installed beside this file's copy, not found by walking up from it.
const require = createRequire(process.cwd() + '/')
const neo4j = require('neo4j-driver')
const [host, port, replicaHost, replicaPort, user, password] = process.argv.slice(2)
const options = { disableLosslessIntegers: true }

const driver = neo4j.driver(`bolt://${host}:${port}`, neo4j.auth.basic(user, password), options)
await driver.verifyConnectivity()
const session = driver.session()
await session.run('CREATE (:J {id: $id})', { id: neo4j.int(1) })
const transaction = session.beginTransaction()
await transaction.run('CREATE (:J {id: 2})')
await transaction.rollback()
await session.executeWrite((tx) => tx.run('CREATE (:J {id: 3})'))
const read = await session.executeRead((tx) => tx.run('MATCH (n:J) RETURN n.id AS id ORDER BY id'))
assert.deepEqual(read.records.map((record) => record.get('id')), [1, 3])
const many = await session.run('UNWIND range(1, 2500) AS x RETURN x')
assert.equal(many.records.length, 2500)
await assert.rejects(session.run('NOT CYPHER'), (error) => error.code.includes('ClientError'))
assert.equal((await session.run('RETURN 1 AS x')).records[0].get('x'), 1)
await session.close()
await driver.close()

const wrong = neo4j.driver(`bolt://${host}:${port}`, neo4j.auth.basic(user, 'wrong'))
await assert.rejects(wrong.verifyConnectivity(), /Authentication failure/)
await wrong.close()

const replica = neo4j.driver(`bolt://${replicaHost}:${replicaPort}`, undefined, options)
const reader = replica.session()
const count = await reader.run('MATCH (n:J) RETURN count(n) AS c')
assert.equal(count.records[0].get('c'), 2)
await assert.rejects(
  reader.executeWrite((tx) => tx.run('CREATE (:J)')),
  (error) => error.message.includes('Write queries are forbidden on the replica instance.') && !error.retriable
)
await reader.close()
await replica.close()
console.log('javascript: ok')
