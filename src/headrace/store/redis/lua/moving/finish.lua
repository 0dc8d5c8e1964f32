-- Write the facts, the index and the lanes, and notify listeners.
local finish
do
  -- A flow is counted for a while after its last job of this queue has left.
  local function write_flows()
    for flow, states in pairs(leaving) do
      local jobs, counts = key.flow_jobs .. flow, key.flow_counts .. flow
      for state, left in pairs(states) do
        for i = 1, #left, 4000 do
          redis.call('HINCRBY', counts, state, redis.call('SREM', jobs, unpack(left, i, math.min(i + 3999, #left))))
        end
      end
      if redis.call('EXISTS', jobs) == 0 then
        redis.call('PEXPIRE', counts, FLOW_MS)
      end
    end
  end

  finish = function(count, facts, lost, counts)
    repeat
      run_agenda()
    until release_batches() == 0
    write_places()
    write_all(bodies, key.parked)
    write_lanes()
    -- Keys that are not of their types count nothing; the jobs have moved on.
    pcall(write_flows)
    if #lost > 0 then
      -- Facts that were written in advance for these jobs do not count.
      record(EVENTS, count, {facts}, lost, counts, {})
      count, lost, counts = 0, {}, ''
    end
    local all = count + #facts_made
    if count > 0 then
      table.insert(facts_made, 1, facts)
    end
    record(EVENTS, all, facts_made, lost, counts, made, unpack(all == 1 and count == 0 and last_made or {}))
    if #finished > 0 then
      redis.call('PUBLISH', key.finished_channel, array(#finished) .. table.concat(finished))
    end
    if has_messages or (due_before ~= nil and first_due() ~= due_before) then
      redis.call('PUBLISH', key.due_channel, '')
    end
    if control_changed then
      redis.call('PUBLISH', key.control_channel, '')
    end
  end
end
