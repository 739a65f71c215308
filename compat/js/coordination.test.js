// What a client in JavaScript does with coordd, in every way that there is to reach it.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { anyUnpack } from '@bufbuild/protobuf/wkt'
import { CoordinationServiceDefinition, DescribeNodeResultSchema } from '@ydbjs/api/coordination'
import { StatusIds_StatusCode as Status } from '@ydbjs/api/operation'
import { RateLimiterServiceDefinition } from '@ydbjs/api/rate-limiter'
import { ListDirectoryResultSchema, SchemeServiceDefinition } from '@ydbjs/api/scheme'
import { StaticCredentialsProvider } from '@ydbjs/auth/static'
import { Driver } from '@ydbjs/core'
import { Session, check } from './session.js'
import { startWays } from './server.js'

const { ways, stop, refused } = await startWays()
after(stop)

// A test that hangs has failed; the longest takes 8 s on a quiet machine.
const patience = { timeout: 120_000 }
const exclusive = 2n ** 64n - 1n // the whole of a semaphore that is there as long as somebody holds it
const forever = 2n ** 64n - 1n
/** Repeats a call until the server answers otherwise than with a status, which is one that passes. */
const unless = async (status, call) => {
	for (;;) {
		const { operation } = await call()
		if (operation.status !== status) {
			return operation
		}
		await setTimeout(50)
	}
}
const data = (text) => new TextEncoder().encode(text)

describe('coordination', { concurrency: 8 }, () => {
	for (const way of ways) {
		/** Runs a test with n clients, of the coordination service unless another is named, and a node of its own. */
		const scenario = (name, n, run, service = CoordinationServiceDefinition) =>
			test(`${name} (${way.name})`, patience, async () => {
				const [driver, ...drivers] = await way.drivers(n)
				const coordination = driver.createClient(CoordinationServiceDefinition)
				const clients = [driver, ...drivers].map((driver) => driver.createClient(service))
				const node = `/local/compat-js/${way.name}/${name}`.replaceAll(/[ ,]+/g, '-')
				check('createNode', (await coordination.createNode({ path: node, config: {} })).operation)
				await run(node, ...clients)
				check('dropNode', (await coordination.dropNode({ path: node })).operation)
			})

		scenario('nodes', 1, async (node, client) => {
			check('createNode again', (await client.createNode({ path: node, config: {} })).operation)
			check('alterNode', (await client.alterNode({ path: node, config: { sessionGracePeriodMillis: 5000 } })).operation)
			const { operation } = await client.describeNode({ path: node })
			const { self, config } = anyUnpack(check('describeNode', operation).result, DescribeNodeResultSchema)
			assert.equal(self.name, 'nodes')
			assert.equal(config.sessionGracePeriodMillis, 5000)
			assert.equal((await client.dropNode({ path: `${node}/nothing` })).operation.status, Status.SCHEME_ERROR)
		})

		scenario('sessions', 1, async (node, client) => {
			const [first, second] = await Promise.all([Session.start(client, node), Session.start(client, node)])
			assert.notEqual(first.id, 0n)
			assert.notEqual(first.id, second.id)
			await second.stop()
			await first.drop()
			const again = await Session.start(client, node, { sessionId: first.id, protectionKey: first.protectionKey, seqNo: 1n })
			assert.equal(again.id, first.id)
			await again.stop()
			await assert.rejects(Session.start(client, node, { sessionId: first.id, protectionKey: first.protectionKey }),
				{ status: Status.SESSION_EXPIRED })
			await assert.rejects(Session.start(client, `${node}/nothing`), { status: Status.NOT_FOUND })
		})

		scenario('locks', 2, async (node, one, other) => {
			const [holder, next] = await Promise.all([Session.start(one, node), Session.start(other, node)])
			const lock = { name: 'lock', count: exclusive, ephemeral: true }
			const held = await holder.call('acquireSemaphore', { ...lock, timeoutMillis: forever, data: data('holder') })
			assert.equal(held.acquired, true)

			const tried = await next.call('acquireSemaphore', { ...lock, timeoutMillis: 0n })
			assert.equal(tried.acquired, false)
			const waiting = next.request('acquireSemaphore', { ...lock, timeoutMillis: forever, data: data('next') })
			await next.wait('acquireSemaphorePending', waiting)
			const { semaphoreDescription: found } = await holder.call('describeSemaphore',
				{ name: lock.name, includeOwners: true, includeWaiters: true })
			assert.deepEqual(found.owners.map(({ sessionId }) => sessionId), [holder.id])
			assert.deepEqual(found.waiters.map(({ sessionId }) => sessionId), [next.id])
			assert.equal(new TextDecoder().decode(found.owners[0].data), 'holder')
			assert.equal(next.has('acquireSemaphoreResult', waiting), false)

			assert.equal((await holder.call('releaseSemaphore', { name: lock.name })).released, true)
			assert.equal(check('acquireSemaphore', await next.wait('acquireSemaphoreResult', waiting)).acquired, true)
			assert.equal((await holder.call('releaseSemaphore', { name: lock.name })).released, false)

			// The end of a session gives back what it holds.
			const after = holder.request('acquireSemaphore', { ...lock, timeoutMillis: forever })
			await holder.wait('acquireSemaphorePending', after)
			await next.stop()
			assert.equal(check('acquireSemaphore', await holder.wait('acquireSemaphoreResult', after)).acquired, true)
			await holder.stop()
		})

		scenario('semaphores', 1, async (node, client) => {
			const session = await Session.start(client, node)
			await session.call('createSemaphore', { name: 'pool', limit: 3n, data: data('old') })
			await assert.rejects(session.call('createSemaphore', { name: 'pool', limit: 3n }), { status: Status.ALREADY_EXISTS })
			await session.call('updateSemaphore', { name: 'pool', data: data('new') })
			const held = await session.call('acquireSemaphore', { name: 'pool', count: 2n, timeoutMillis: forever })
			assert.equal(held.acquired, true)
			const { semaphoreDescription: pool } = await session.call('describeSemaphore', { name: 'pool' })
			assert.deepEqual([pool.limit, pool.count, new TextDecoder().decode(pool.data)], [3n, 2n, 'new'])
			await assert.rejects(session.call('deleteSemaphore', { name: 'pool' }), { status: Status.PRECONDITION_FAILED })
			await session.call('deleteSemaphore', { name: 'pool', force: true })
			await assert.rejects(session.call('describeSemaphore', { name: 'pool' }), { status: Status.NOT_FOUND })
			await session.stop()
		})

		scenario('watches', 2, async (node, one, other) => {
			const [watcher, writer] = await Promise.all([Session.start(one, node), Session.start(other, node)])
			await writer.call('createSemaphore', { name: 'config', limit: 1n, data: data('1') })
			const watch = async (what) => {
				const reqId = watcher.request('describeSemaphore', { name: 'config', includeOwners: true, ...what })
				const described = check('describeSemaphore', await watcher.wait('describeSemaphoreResult', reqId))
				assert.equal(described.watchAdded, true)
				return reqId
			}
			const ofData = await watch({ watchData: true })
			await writer.call('updateSemaphore', { name: 'config', data: data('2') })
			const changed = await watcher.wait('describeSemaphoreChanged', ofData)
			assert.deepEqual([changed.dataChanged, changed.ownersChanged], [true, false])

			const ofOwners = await watch({ watchOwners: true })
			await writer.call('acquireSemaphore', { name: 'config', count: 1n, timeoutMillis: forever })
			const taken = await watcher.wait('describeSemaphoreChanged', ofOwners)
			assert.deepEqual([taken.dataChanged, taken.ownersChanged], [false, true])

			// A watch that another replaces is told so, and fires for no reason.
			const replaced = await watch({ watchData: true })
			await watch({ watchOwners: true })
			const over = await watcher.wait('describeSemaphoreChanged', replaced)
			assert.deepEqual([over.dataChanged, over.ownersChanged], [false, false])
			await Promise.all([watcher.stop(), writer.stop()])
		})

		scenario('rate limiter', 1, async (node, limiter) => {
			const resource = { coordinationNodePath: node, resource: { resourcePath: 'rate', type: {
				case: 'hierarchicalDrr', value: { maxUnitsPerSecond: 1000 } } } }
			// UNAVAILABLE: a cluster has just started, and its servers do not know yet what the others can do.
			check('createResource', await unless(Status.UNAVAILABLE, () => limiter.createResource(resource)))
			const acquire = { coordinationNodePath: node, resourcePath: 'rate', units: { case: 'required', value: 1n } }
			check('acquireResource', (await limiter.acquireResource(acquire)).operation)
			check('dropResource', (await limiter.dropResource({ coordinationNodePath: node, resourcePath: 'rate' })).operation)
			// SUCCESS: a server from which it has been acquired has not heard of the end yet.
			const { status } = await unless(Status.SUCCESS, () => limiter.acquireResource(acquire))
			assert.equal(status, Status.BAD_REQUEST)
		}, RateLimiterServiceDefinition)

		scenario('directories', 1, async (node, scheme) => {
			const path = `${node}-and/more`
			check('makeDirectory', (await scheme.makeDirectory({ path })).operation)
			const { result } = check('listDirectory', (await scheme.listDirectory({ path: `${node}-and` })).operation)
			assert.deepEqual(anyUnpack(result, ListDirectoryResultSchema).children.map(({ name }) => name), ['more'])
			check('removeDirectory', (await scheme.removeDirectory({ path })).operation)
			assert.equal((await scheme.describePath({ path })).operation.status, Status.SCHEME_ERROR)
		}, SchemeServiceDefinition)

		scenario('long hold', 2, async (node, one, other) => {
			const timeoutMillis = 3_000n
			const [holder, next] = await Promise.all([
				Session.start(one, node, { timeoutMillis }),
				Session.start(other, node),
			])
			const lock = { name: 'lock', count: exclusive, ephemeral: true, timeoutMillis: forever }
			await holder.call('acquireSemaphore', lock)
			const waiting = next.request('acquireSemaphore', lock)
			await next.wait('acquireSemaphorePending', waiting)
			// Nothing but the answers to pings keeps the session for longer than its timeout.
			const broken = holder.ended.then(() => assert.fail('the stream has ended'))
			const end = Date.now() + 2 * Number(timeoutMillis)
			for (const before = holder.pings; Date.now() < end || holder.pings < before + 4; ) {
				await Promise.race([setTimeout(50), broken])
			}
			assert.equal(next.has('acquireSemaphoreResult', waiting), false)
			const { semaphoreDescription: found } = await next.call('describeSemaphore', { name: lock.name, includeOwners: true })
			assert.deepEqual(found.owners.map(({ sessionId }) => sessionId), [holder.id])
			// Without its stream the session is gone after its timeout.
			broken.catch(() => {})
			await holder.drop()
			assert.equal(check('acquireSemaphore', await next.wait('acquireSemaphoreResult', waiting)).acquired, true)
			await next.stop()
		})
	}

	test('refusals (token)', patience, async () => {
		const anonymous = new Driver(refused.anonymous, { 'ydb.sdk.enable_discovery': false })
		await anonymous.ready()
		const client = anonymous.createClient(CoordinationServiceDefinition)
		await assert.rejects(client.describeNode({ path: '/local' }), /UNAUTHENTICATED/)
		anonymous.close()
	})

	test('refusals (tls and login)', patience, async () => {
		const wrong = new StaticCredentialsProvider({ username: refused.user, password: 'wrong' },
			refused.secureConnection, refused.secureOptions)
		await assert.rejects(wrong.getToken(), { code: Status.UNAUTHORIZED })
	})
})
