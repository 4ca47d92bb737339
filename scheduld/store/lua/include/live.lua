-- Where tasks of schedules begin and end. `live` names the unfinished ones of a schedule -> tick
-- ms; below zero: of a backfill, which holds up no tick. It is a hint: what it says is checked
-- against due and leased before it holds one up.
local root = string.sub(prefix, 1, -6)

local function is_indexed(id)
  return redis.call('ZSCORE', due, id) or redis.call('ZSCORE', leased, id)
    or redis.call('ZSCORE', done, id) or redis.call('ZSCORE', dead, id)
end

-- Made when it is asked for: most calls meet no schedule.
local function schedule(name, cron)
  cron = cron or root .. 'cron:' .. name
  local live, ticks, self = root .. 'live:' .. name, root .. 'ticks:' .. name, {}

  -- What is stored of it; nil if it is gone, false if a key of it is of a wrong type.
  function self.read()
    local names = {'digest', 'mark', 'overlap', 'most', 'max_runs', 'runs', 'keep',
      'queued', 'paused', 'skips', 'moved', 'rule', 'origin', 'orphan', 'orphan_at', 'parked'}
    local values = redis.pcall('HMGET', cron, unpack(names))
    local length = redis.pcall('XLEN', ticks)
    if values.err or type(length) == 'table' or type(redis.pcall('ZCARD', live)) == 'table' then
      return false
    end
    local known = {length = length}
    for index, field in ipairs(names) do
      known[field] = values[index]
    end
    known.mark, known.runs = number(known.mark) or 0, number(known.runs) or 0
    known.max_runs = number(known.max_runs)
    return known.digest and known or nil
  end

  -- Adds to the history: 'o' outcome, then fields and values.
  function self.record(known, outcome, ...)
    local count, age = string.match(known.keep or '', '^(%d+) (%d+)$')
    count, age = int(number(count) or 1000), number(age) or 7776e6
    local at = given_now == '' and '*' or int(now) .. '-*'
    local added = redis.pcall('XADD', ticks, 'MAXLEN', '~', count, at, 'o', outcome, ...)
    if type(added) == 'table' then
      -- A clock by hand went backwards.
      redis.call('XADD', ticks, 'MAXLEN', '~', count, '*', 'o', outcome, ...)
    end
    -- Only whole blocks of a hundred go.
    if known.length >= 100 then
      redis.call('XTRIM', ticks, 'MINID', '~', int(math.max(0, now - age)))
    end
  end

  -- How many tasks hold up a tick, and the first of them; those that have ended are taken out.
  function self.unfinished(most)
    local count = redis.call('ZCOUNT', live, '0', '+inf')
    if count < most then
      return count, {}
    end
    local ids, held = redis.call('ZRANGEBYSCORE', live, '0', '+inf', 'LIMIT', '0', '1000'), {}
    local waits = #ids > 0 and redis.call('ZMSCORE', due, unpack(ids))
    local runs = #ids > 0 and redis.call('ZMSCORE', leased, unpack(ids))
    for index, id in ipairs(ids) do
      if waits[index] or runs[index] then
        held[#held + 1] = id
      else
        redis.call('ZREM', live, id)
        count = count - 1
      end
    end
    return count, held
  end

  function self.is_taken(id)
    return redis.call('EXISTS', prefix .. id) == 1 or is_indexed(id)
  end

  -- Makes a task of an id that is not taken. tick: '' for a trigger by hand; payload: '' for the
  -- schedule's own; is_past: of a backfill.
  function self.start(id, at, tick, payload, is_past)
    local score = tick ~= '' and tick or int(now)
    payload = payload ~= '' and payload or redis.call('HGET', cron, 'payload') or '{}'
    redis.call('HSET', prefix .. id, 'payload', payload, 'schedule', name,
      unpack(tick ~= '' and {'tick', tick} or {}))
    redis.call('ZADD', live, is_past and '-' .. score or score, id)
    redis.call('ZADD', due, at, id)
    lower(tonumber(at))
    note('fired', id)
  end

  -- What became of a tick is told, and a task of one counted; the watermark is stored.
  function self.told(known, tick, outcome, id, why)
    local entry = {'id', id}
    if tick ~= '' then
      entry = {'id', id, 't', tick, 'late', int(math.max(0, now - tick))}
      known.runs = known.runs + (outcome == 'fired' and 1 or 0)
      redis.call('HSET', cron, 'last', tick .. ' ' .. int(now) .. ' ' .. outcome,
        'runs', int(known.runs), 'mark', int(known.mark))
      if known.parked or known.orphan then
        -- What one replica saw of it, another one has disproved.
        redis.call('HDEL', cron, 'parked', 'orphan', 'orphan_at')
      end
    end
    if why then
      entry[#entry + 1], entry[#entry + 2] = 'why', why
    end
    self.record(known, outcome, unpack(entry))
  end

  -- The tick that waits in the hash ('TICK DUE ID PAYLOAD') becomes a task.
  function self.release(known)
    local tick, at, id, payload = string.match(known.queued, '^(%d*) (%d+) (%S+) (.*)$')
    known.queued = false
    redis.call('HDEL', cron, 'queued')
    if not id then
      return
    end
    if tick ~= '' and known.max_runs and known.runs >= known.max_runs then
      self.told(known, tick, 'skipped', id, 'max_runs')
      return
    end
    local outcome = self.is_taken(id) and 'exists' or 'fired'
    if outcome == 'fired' then
      self.start(id, at, tick, payload)
    end
    self.told(known, tick, outcome, id, tick == '' and 'manual' or nil)
  end

  -- A task of it that had ended is to run again.
  function self.join(id, tick)
    redis.pcall('ZADD', live, tick or int(now), id)
  end

  -- A task of it is over: what waits for that takes its place.
  function self.leave(id)
    if redis.pcall('ZREM', live, id) ~= 1 then
      return
    end
    local known = self.read()
    if known and known.queued and not known.paused and not known.moved and self.unfinished(1) == 0 then
      self.release(known)
    end
  end

  return self
end

-- Whose task it is, and of which tick: fields and values; nil if of none. is_live: only of one that
-- is unfinished, as a task that takes its id takes its place too.
local function tick_of(id, is_live)
  local task = redis.pcall('HMGET', prefix .. id, 'schedule', 'tick')
  if task.err or not task[1]
    or is_live and not redis.pcall('ZSCORE', root .. 'live:' .. task[1], id) then
    return nil
  end
  return task[2] and {'schedule', task[1], 'tick', task[2]} or {'schedule', task[1]}
end

-- A task has left due and leased for good. name: the field `schedule` of its hash; where there is
-- no hash any more the id tells.
local function leave_live(id, name)
  if not name and string.find(id, '@', 1, true) and redis.call('TYPE', prefix .. id).ok ~= 'hash' then
    name = string.match(id, '^([%w_.-]+)@')
  end
  if name then
    schedule(name).leave(id)
  end
end
