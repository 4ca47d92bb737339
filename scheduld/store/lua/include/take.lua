-- Moves due tasks to leased, oldest first. Plain ones (due, never claimed, not ended) are
-- answered flat, three values each: id, payload, due ms. Others are rows: {id, payload, nominal
-- due, due ms (start then), early, failed, releases, interruptions, how many plain ones come
-- before it; of a task that is periodic or of a schedule also its fields (include/series.lua)}
local max_bytes = 4 * 1024 * 1024
-- So many that are refused or held back are looked at for the sake of those behind them.
local most_aside = 200

-- Which of the ids are done or dead.
local function ended_among(ids)
  local ended, died = redis.call('ZMSCORE', done, unpack(ids)), scores_of(dead, ids)
  for index = 1, #ids do
    ended[index] = ended[index] or died[index]
  end
  return ended
end

local function take_one(id, score, task, is_ended, fence, lead)
  local key = prefix .. id
  if is_ended or task[5] then
    -- A plain HSET and ZADD of an ended id: a new life with counters at zero.
    redis.call('DEL', key)
    task = {task[1]}
    redis.call('HSET', key, 'payload', task[1] or '{}')
  end
  local at = math.ceil(score)
  local nominal = int(number(task[6]) or (at > 0 and at or now))
  local early = at > now + lead
  if task[7] or task[8] or task[9] then
    redis.call('HDEL', key, 'seen', 'started', 'moved')
  end
  local fields = (task[13] or task[14] or task[15] or task[16]) and series_of(key)
  if task[12] then
    redis.pcall('ZREM', root .. 'prio', id)
    redis.pcall('ZREM', root .. 'lazy', id)
  end
  if at > now then
    redis.call('HSET', key, 'fence', fence, 'owner', node, 'due', nominal,
      early and 'early' or 'started', int(at))
  else
    redis.call('HSET', key, 'fence', fence, 'owner', node, 'due', nominal)
  end
  -- Of one that was moved, for its priority or its key, the lateness counts from its due.
  local since = at > now and at or math.ceil(origin(at, task[9]))
  return {id, task[1] or false, nominal, int(since > 0 and since or now), early and 1 or 0,
    number(task[2]) or 0, number(task[3]) or 0, number(task[4]) or 0, fields or nil}
end

-- The payload of a plain task: its hash holds that and maybe a token, and nothing else.
local function plain_payload(id, at)
  if at > now or at <= 0 or at >= seconds_from and at < seconds_to then
    return nil
  end
  local flat = redis.pcall('HGETALL', prefix .. id)
  if flat[5] then
    return nil
  end
  if flat[1] == 'payload' and (not flat[3] or flat[3] == 'token') then
    return flat[2]
  end
  return flat[1] == 'token' and flat[3] == 'payload' and flat[4]
end

-- The oldest due ids and their scores. Scores are dear: each is printed, read and printed again.
-- Tasks that were added together have the same one, so that the first and the last are enough.
local function oldest(until_ms, want)
  local limit = int(until_ms)
  local ids = redis.call('ZRANGEBYSCORE', due, '-inf', limit, 'LIMIT', '0', want)
  local scores = {}
  if #ids > 0 then
    local first = redis.call('ZSCORE', due, ids[1])
    if #ids == 1 or redis.call('ZSCORE', due, ids[#ids]) == first then
      for index = 1, #ids do
        scores[index] = first
      end
    else
      scores = redis.call('ZMSCORE', due, unpack(ids))
    end
  end
  return ids, scores
end

-- Up to 128 entries make a listpack, which is read from end to end for each id of each batch.
-- A member that is longer than 64 bytes turns it into a skiplist for as long as it has entries.
local function make_skiplist(lease_end, id)
  if redis.pcall('OBJECT', 'ENCODING', leased) ~= 'skiplist' then
    local long = string.rep('-', 65)
    redis.call('ZADD', leased, lease_end, id)
    if redis.call('ZADD', leased, 'NX', lease_end, long) == 1 then
      redis.call('ZREM', leased, long)
    end
  end
end

-- All of them leave due in one step, and most often they are its head.
local function move(ids, leases, is_head)
  if is_head then
    redis.call('ZREMRANGEBYRANK', due, '0', #ids - 1)
  else
    redis.call('ZREM', due, unpack(ids))
  end
  redis.call('ZREM', done, unpack(ids))
  if sizes[dead] > 0 then
    redis.call('ZREM', dead, unpack(ids))
  end
  if #ids > 16 then
    make_skiplist(leases[1], ids[1])
  end
  redis.call('ZADD', leased, unpack(leases))
  note_all('claimed', ids)
end

-- Looks at the first of due, as many as `look_at`. Answers whether to go on with those behind.
local function take_some(taken, want, look_at, until_ms, lead, lease, fence, keys)
  local heads, scores = oldest(until_ms, look_at)
  local held, ended = scores_of(leased, heads), nil
  local plain, rows, ids, leases = taken.plain, taken.rows, {}, {}
  local bytes, room, is_over = taken.bytes, want - #taken.ids, false
  local lease_end, score, at, nominal = int(now + lease), nil, nil, nil
  -- A key with room may have put tasks that waited for it before those that were read.
  local is_head = not keys
  for index, id in ipairs(heads) do
    if scores[index] ~= score then
      score = scores[index]
      at = tonumber(score)
      nominal = string.match(score, '^%d+$') or int(math.ceil(at))
    end
    local payload = not held[index] and plain_payload(id, at)
    local task, is_anew = not payload and look(id), false
    if task and not task.err then
      ended = ended or ended_among(heads)
      is_anew = task[5] or ended[index] and redis.call('HEXISTS', prefix .. id, 'fence') == 1
      -- What the life before said of load does not count in this one.
      task = is_anew and {unpack(task, 1, 8)} or task
    end
    bytes = bytes + #(payload or task[1] or '')
    local count = #ids + 1
    if count > room or bytes > max_bytes and #plain + #rows + taken.aside > 0 then
      is_over = true
      break
    end
    if task and (refuse(id, at, task, held[index])
      or keys and task[10] and not task[16] and keys.hold_back(id, at, task, fence)) then
      is_head = false
      taken.aside = taken.aside + 1
    else
      if payload then
        redis.call('HSET', prefix .. id, 'fence', fence, 'owner', node, 'due', nominal)
        local from = #plain
        plain[from + 1], plain[from + 2], plain[from + 3] = id, payload, nominal
      else
        local row = take_one(id, at, task, is_anew, fence, lead)
        row[9], row[10] = #plain / 3, row[9]
        rows[#rows + 1] = row
      end
      ids[count], leases[count * 2 - 1], leases[count * 2] = id, lease_end, id
    end
  end
  if #ids > 0 then
    move(ids, leases, is_head)
  end
  for _, id in ipairs(taken.ids[1] and ids or {}) do
    taken.ids[#taken.ids + 1] = id
  end
  if keys then
    keys.write_aside()
  end
  taken.ids, taken.bytes = taken.ids[1] and taken.ids or ids, bytes
  return not is_over and #ids < room and #heads == look_at
end

-- keys: limits of the tasks of one key (include/keyed.lua), nil if there are none.
local function take(want, early_ms, lead, lease, fence, keys)
  local taken, look_at = {plain = {}, rows = {}, ids = {}, bytes = 0, aside = 0}, want
  while want > 0 and taken.aside < most_aside
    and take_some(taken, want, look_at, now + early_ms, lead, lease, fence, keys) do
    look_at = math.max(want - #taken.ids, 50)
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', due, '(253402300799999', '+inf', 'LIMIT', '0', '5')) do
    refuse(id, last_ms + 1, look(id), redis.call('ZSCORE', leased, id))
  end
  return taken.plain, taken.rows, taken.ids
end
